"""Examples of a corpus of any size: drawn from a block of documents at a time, held in memory or mapped from files."""

import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from common.files import explain_full_disk
from teacher.arrays import GrowingArray, map_array
from teacher.pieces import Pieces

MOST_DOCUMENTS, MOST_PIECES = 16_384, 2**24
"""Of a block that is drawn at a time: some 15 MB of pairs of 64 pieces."""


def document_blocks(pieces: Pieces) -> Iterator[np.ndarray]:
    """Numbers of documents one after another, in blocks of MOST_DOCUMENTS or MOST_PIECES, but at least one of them."""
    first = 0
    while first < len(pieces):
        last = min(first + MOST_DOCUMENTS, len(pieces))
        starts = pieces.sentences[pieces.documents[first : last + 1]]
        last = first + max(1, int(np.searchsorted(starts, starts[0] + MOST_PIECES, side="right")) - 1)
        yield np.arange(first, last)
        first = last


def joined(
    blocks: Iterator[tuple[np.ndarray, ...]], names: Sequence[str], folder: Path | None = None
) -> list[np.ndarray]:
    """The arrays of all blocks one after another; with a `folder` as NAME.npy in there, and mapped into memory."""
    if folder is None:
        return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]
    folder.mkdir(parents=True, exist_ok=True)
    # An earlier file may still be mapped, so it is replaced and never overwritten.
    paths = [folder / f".{name}.{os.getpid()}.tmp" for name in names]
    with explain_full_disk(folder), contextlib.ExitStack() as stack:
        first = next(blocks)
        arrays = [
            stack.enter_context(GrowingArray(path, part.dtype, part.shape[1:]))
            for path, part in zip(paths, first, strict=True)
        ]
        for block in itertools.chain([first], blocks):
            for array, part in zip(arrays, block, strict=True):
                array.append(part)
    for name, path in zip(names, paths, strict=True):
        os.replace(path, folder / f"{name}.npy")
    return [map_array(folder / f"{name}.npy") for name in names]
