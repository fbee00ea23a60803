"""Texts that are longer than a model reads: their beginning and end, or all of them in overlapping windows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedTokenizerBase

from teacher.tasks.base import Encoded

WAYS = ("truncate", "head+tail", "windows")
"""What --long can be."""


@dataclass(frozen=True, kw_only=True)
class EncodedWindows(Encoded):
    """Rows are windows; each has its text's label."""

    example: np.ndarray
    """(rows,) which text a row is of, rising."""

    @property
    def references(self) -> np.ndarray:
        """The labels of the texts, not of their windows."""
        return self.labels[np.unique(self.example, return_index=True)[1]]


def pooled(logits: np.ndarray, encoded: Encoded) -> np.ndarray:
    """Logits (texts, outputs): the mean over each text's windows, of logits (rows, outputs)."""
    if not isinstance(encoded, EncodedWindows):
        return logits
    counts = np.bincount(encoded.example)
    starts = np.cumsum([0, *counts[:-1]])
    return np.add.reduceat(logits, starts, axis=0) / counts.reshape(-1, *[1] * (logits.ndim - 1))


def encode_long(
    texts: Sequence[str],
    labels: np.ndarray,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    *,
    long: str,
    stride: int | None,
) -> Encoded:
    """Each text as pieces, longer ones as `long` says; `truncated` counts those that lose pieces.

    "head+tail" keeps the first quarter of the room and fills the rest with the end, as 128 + 382 of 510 (Sun et al.
    2019, arXiv 1905.05583, section 5.3.1). In "windows", which lose none, neighbours share `stride` pieces (None: a
    third of `max_length`).
    """
    encoding = tokenizer(
        list(texts), return_special_tokens_mask=True, return_attention_mask=False, truncation=False, verbose=False
    )
    marked = list(zip(encoding["input_ids"], encoding["special_tokens_mask"], strict=True))
    bare = [[piece for piece, special in zip(ids, mask, strict=True) if not special] for ids, mask in marked]
    before, after = _frame(marked)
    room = max_length - len(before) - len(after)
    share = min(max_length // 3 if stride is None else stride, room - 1)
    parts = [[ends(ids, room)] if long == "head+tail" else _windows(ids, room, share) for ids in bare]
    example = np.repeat(np.arange(len(parts)), [len(rows) for rows in parts])
    rows = [[*before, *ids, *after] for windows in parts for ids in windows]
    encoded = Encoded(
        input_ids=[np.asarray(ids, dtype=np.int64) for ids in rows],
        token_types=[np.zeros(len(ids), dtype=np.int64) for ids in rows],
        labels=labels[example],
        max_length=max_length,
        truncated=0 if long == "windows" else sum(len(ids) > room for ids in bare),
    )
    return EncodedWindows(**vars(encoded), example=example) if long == "windows" else encoded


def _frame(marked: Sequence[tuple[list[int], list[int]]]) -> tuple[list[int], list[int]]:
    """What the tokenizer puts before and behind a text, from pieces with a 1 where one is not of the text.

    >>> _frame([([2, 3], [1, 1]), ([2, 7, 8, 3], [1, 0, 0, 1])])
    ([2], [3])
    """
    for ids, mask in marked:
        if 0 in mask:
            return ids[: mask.index(0)], ids[len(ids) - mask[::-1].index(0) :]
    ids = marked[0][0]
    return ids[:1], ids[1:]


def ends(ids: list[int], room: int) -> list[int]:
    """The first quarter of the room, and the end.

    >>> ends(list(range(10)), 4), ends([1, 2], 4)
    ([0, 7, 8, 9], [1, 2])
    """
    head = room // 4
    return ids if len(ids) <= room else [*ids[:head], *ids[len(ids) - (room - head) :]]


def _windows(ids: list[int], room: int, share: int) -> list[list[int]]:
    """Windows of `room` pieces, each sharing `share` with the one before; the last one may be shorter.

    >>> _windows(list(range(7)), 4, 2), _windows([], 4, 2)
    ([[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6]], [[]])
    """
    last = max(1, len(ids) - share)
    return [ids[start : start + room] for start in range(0, last, room - share)]
