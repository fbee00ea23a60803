"""Which examples of a batch pass through a model together: a part for each lane or process."""

import dataclasses
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Part:
    """Examples that pass through the model together."""

    indices: np.ndarray
    number: int
    """Of all parts of the run: seeds what is drawn for it."""
    share: float
    """Of the batch it is cut from: the weight of its means."""
    batch: np.ndarray
    """All examples of that batch."""


def cut(indices: np.ndarray, number: int, lanes: int) -> list[Part]:
    """A batch in at most `lanes` parts of like length: examples that stood side by side go to different parts.

    >>> [(part.indices.tolist(), part.number, part.share) for part in cut(np.array([5, 6, 7, 8]), 3, 2)]
    [([5, 7], 6, 0.5), ([6, 8], 7, 0.5)]
    """
    pieces = [indices[lane::lanes] for lane in range(lanes)]
    return [
        Part(indices=piece, number=number * lanes + lane, share=len(piece) / len(indices), batch=indices)
        for lane, piece in enumerate(pieces)
        if len(piece)
    ]


def own_parts(parts: list[Part], processes: int, rank: int) -> list[Part]:
    """Of a batch cut for `processes`, what process `rank` computes: all of it if it is alone, else one part.

    Where a batch has fewer examples than there are processes, one without any repeats an example with the share 0: all
    must take part when gradients meet.
    """
    if processes == 1:
        return parts
    idle = dataclasses.replace(parts[0], indices=parts[0].indices[:1], share=0.0)
    return [parts[rank] if rank < len(parts) else idle]
