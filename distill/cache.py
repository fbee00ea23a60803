"""What a teacher looks like inside on a set of examples, computed once and read from a memory-mapped file ever after.

Epochs, seeds and students ask for the same hidden states, queries, keys and values again and again. They are kept in
the precision of training, without padding, one file a layer and kind; scores and relations are formed from them at
every step as they would be from a forward pass.
"""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from common.files import new_folder
from distill.outputs import Features, features
from teacher.batches import sorted_batches
from teacher.tasks.base import Encoded

OFFSETS = "offsets.npy"
_HALF, _FULL = np.dtype(np.int16), np.dtype(np.float32)
"""What files hold: the bits of bf16, which numpy lacks, or fp32."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which layers of a teacher stages look at; the embeddings are hidden state 0."""

    hidden: frozenset[int] = frozenset()
    attention: frozenset[int] = frozenset()
    """Layers whose queries and keys are compared, counted from 1."""
    values: bool = False
    """The value states of those layers too."""

    def __or__(self, other: "Wanted") -> "Wanted":
        """What serves both."""
        return Wanted(
            hidden=self.hidden | other.hidden,
            attention=self.attention | other.attention,
            values=self.values or other.values,
        )

    def serves(self, other: "Wanted") -> bool:
        return self | other == self

    def files(self) -> list[str]:
        """The names of the arrays."""
        kinds = ("query", "key", "value") if self.values else ("query", "key")
        return [f"hidden-{layer}" for layer in sorted(self.hidden)] + [
            f"{kind}-{layer}" for layer in sorted(self.attention) for kind in kinds
        ]

    def size(self, pieces: int, width: int, *, bf16: bool) -> int:
        """Bytes that so many pieces of a teacher of this width take."""
        return len(self.files()) * pieces * width * _kept(bf16).itemsize


def _kept(bf16: bool) -> np.dtype[Any]:
    return _HALF if bf16 else _FULL


def write_features(
    teacher: PreTrainedModel,
    encoded: Encoded,
    collate: Callable[[Sequence[int]], Mapping[str, Tensor]],
    wanted: Wanted,
    folder: Path,
    *,
    bf16: bool,
    advance: Callable[[int], None],
    batch_size: int = 64,
) -> None:
    """Run the teacher, which uses `teacher.attention` and is in evaluation mode, over every example.

    `folder` is written whole or not at all. `advance` is told how many examples are done.
    """
    offsets = np.concatenate([[0], np.cumsum(encoded.lengths)]).astype(np.int64)
    width = int(teacher.config.hidden_size)
    with new_folder(folder) as target:
        np.save(target / OFFSETS, offsets)
        shape = (int(offsets[-1]), width)
        arrays = {name: _new_array(target / f"{name}.npy", shape, _kept(bf16)) for name in wanted.files()}
        for indices in sorted_batches(encoded.lengths, batch_size):
            batch = collate(list(indices))
            with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                seen = features(teacher, batch, hidden=True, attention=bool(wanted.attention))
            for name, states in _states(seen, wanted):
                rows = _rows(states, bf16=bf16)
                for row, index in zip(rows, indices, strict=True):
                    start, stop = offsets[index], offsets[index + 1]
                    arrays[name][start:stop] = row[: stop - start]
            advance(len(indices))
        for array in arrays.values():
            array.flush()


def _rows(states: Tensor, *, bf16: bool) -> np.ndarray:
    """As they are kept."""
    return states.to(torch.bfloat16).contiguous().view(torch.int16).numpy() if bf16 else states.float().numpy()


def _new_array(path: Path, shape: tuple[int, int], dtype: np.dtype[Any]) -> np.memmap:
    """A file of zeros, (pieces, width), written to through memory."""
    array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    if hasattr(os, "posix_fallocate"):
        # A full disk is an error with words here; at a write through memory it would be a bus error.
        with path.open("r+b") as stream:
            os.posix_fallocate(stream.fileno(), 0, path.stat().st_size)
    return array


def _states(seen: Features, wanted: Wanted) -> Iterable[tuple[str, Tensor]]:
    """(name, (b, l, width)) of everything wanted."""
    for layer in sorted(wanted.hidden):
        yield f"hidden-{layer}", seen.hidden[layer]
    for layer in sorted(wanted.attention):
        projected = seen.projected(layer)
        for kind in ("query", "key", "value") if wanted.values else ("query", "key"):
            yield f"{kind}-{layer}", projected[kind]


class StoredFeatures:
    """Reads what `write_features` wrote, as a forward pass would have shown it.

    Args:
        folder: that was written.
        wanted: as then.
        layers: of the teacher.
        heads: of its attention.
    """

    def __init__(self, folder: Path, wanted: Wanted, *, layers: int, heads: int) -> None:
        self._wanted, self._layers, self._heads = wanted, layers, heads
        self.device = torch.device("cpu")
        """Where what is read goes."""
        self._offsets = np.load(folder / OFFSETS)
        self._arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in wanted.files()}

    def features(self, indices: Sequence[int], length: int, logits: Tensor) -> Features:
        """Of these examples, padded with zeros to `length`; layers that are not kept are empty tensors."""
        empty = torch.empty(0, device=self.device)
        hidden = tuple(
            self._read(f"hidden-{layer}", indices, length) if layer in self._wanted.hidden else empty
            for layer in range(self._layers + 1)
        )
        attention = tuple(
            self._attention(layer, indices, length)
            if layer in self._wanted.attention
            else (empty, empty, math.nan, empty)
            for layer in range(1, self._layers + 1)
        )
        return Features(
            logits=logits,
            hidden=hidden if self._wanted.hidden else (),
            attention=attention if self._wanted.attention else (),
        )

    def _attention(self, layer: int, indices: Sequence[int], length: int) -> tuple[Tensor, Tensor, float, Tensor]:
        query, key = (self._split(self._read(f"{kind}-{layer}", indices, length)) for kind in ("query", "key"))
        value = self._split(self._read(f"value-{layer}", indices, length)) if self._wanted.values else torch.empty(0)
        return query, key, query.shape[-1] ** -0.5, value

    def _split(self, states: Tensor) -> Tensor:
        """(b, l, width) as (b, h, l, d_k)."""
        return states.unflatten(2, (self._heads, -1)).transpose(1, 2)

    def _read(self, name: str, indices: Sequence[int], length: int) -> Tensor:
        """(b, length, width), bf16 or fp32."""
        array = self._arrays[name]
        padded = np.zeros((len(indices), length, array.shape[1]), dtype=array.dtype)
        for row, index in zip(padded, indices, strict=True):
            start, stop = self._offsets[index], self._offsets[index + 1]
            row[: stop - start] = array[start:stop]
        states = torch.from_numpy(padded)
        return (states.view(torch.bfloat16) if array.dtype == _HALF else states).to(self.device)


@dataclass(frozen=True, kw_only=True)
class Insides:
    """What `write_features` wrote, and where; small enough to be sent to another process."""

    folder: Path
    wanted: Wanted

    def open(self, teacher: PreTrainedModel) -> StoredFeatures:
        """For reading; `teacher` is the one that they are of."""
        config = teacher.config
        return StoredFeatures(
            self.folder, self.wanted, layers=config.num_hidden_layers, heads=config.num_attention_heads
        )
