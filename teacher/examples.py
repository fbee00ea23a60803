"""What an objective reads: pairs for next sentence or sentence order, or single segments."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from teacher.order import draw_order_pairs
from teacher.pairs import Pairs, draw_pairs, pad_pairs
from teacher.pieces import Pieces
from teacher.segments import Segments, pack_segments, pad_segments

Examples = Pairs | Segments

EXAMPLES: dict[str, Callable[..., Examples]] = {"nsp": draw_pairs, "sop": draw_order_pairs, "segments": pack_segments}
"""Kind to what draws it: (pieces, length, seed, passes, folder)."""

PASSES = 10
"""So many times are examples drawn anew from the same documents, at most (dupe_factor of BERT's released code)."""


def draw_examples(
    pieces: Pieces,
    kind: str,
    *,
    length: int,
    seed: int,
    wanted: int,
    most: int = PASSES,
    all_passes: bool = False,
    folder: Path | None = None,
) -> Examples:
    """At least `wanted` examples, drawn in as many passes over the documents as that takes, but no more than `most`.

    With `all_passes` it is always `most`, for static masks. Without, segments have one pass: others are no different.
    With a `folder` they lie there, instead of in memory.
    """
    draw = partial(EXAMPLES[kind], pieces, length=length, seed=seed, folder=folder)
    if all_passes:
        return draw(passes=most)
    once = draw(passes=1)
    passes = min(most, math.ceil(wanted / len(once)))
    return once if passes <= 1 or kind == "segments" else draw(passes=passes)


def pad_examples(
    pieces: Pieces, examples: Examples, indices: Sequence[int] | np.ndarray, *, cls: int, sep: int, pad: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Padded to the longest: ids and segments (batch, length) int64, lengths (batch,)."""
    if isinstance(examples, Pairs):
        return pad_pairs(pieces, examples, indices, cls=cls, sep=sep, pad=pad)
    return pad_segments(pieces, examples, indices, cls=cls, sep=sep, pad=pad)
