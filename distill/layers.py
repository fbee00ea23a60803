"""Which teacher layer each student layer learns from. Layers count from 1; 0 is the embedding output."""

import math
from collections.abc import Sequence

from common.errors import UserError, unknown_name


def even(students: int, teachers: int) -> tuple[int, ...]:
    """Evenly spaced, the last kept: g(m) = m N / M where M divides N, else rounded with first and last kept.

    >>> even(4, 12), even(4, 6), even(1, 6)
    ((3, 6, 9, 12), (1, 3, 4, 6), (6,))
    """
    if teachers % students == 0:
        return tuple(layer * teachers // students for layer in range(1, students + 1))
    # Halves round up, so that the result does not depend on the parity of the integer part.
    return tuple(int(1 + step * (teachers - 1) / (students - 1) + 0.5) for step in range(students))


def top(students: int, teachers: int) -> tuple[int, ...]:
    """The last layers: g(m) = m + N - M."""
    return tuple(layer + teachers - students for layer in range(1, students + 1))


def bottom(students: int, teachers: int) -> tuple[int, ...]:
    """The first layers: g(m) = m."""
    return tuple(range(1, students + 1))


MAPS = {"uniform": even, "top": top, "bottom": bottom, "nearest": even}
"""By name; the nearest layers are found as a stage goes on (distill.nearest), and it starts from evenly spaced ones."""


def layer_map(name: str, students: int, teachers: int) -> tuple[int, ...]:
    """The map by name, or explicit: "2,4,6".

    Raises:
        UserError: unknown name, wrong number of layers, a layer the teacher lacks, more student layers than teacher
        layers.
    """
    if name[:1].isdigit():
        return _explicit(name, students, teachers)
    if name not in MAPS:
        raise unknown_name("layer map", name, MAPS)
    if students > teachers:
        raise UserError(
            f"the student has {students} layers, the teacher {teachers}: give an explicit map, as in 1,1,2,2"
        )
    return MAPS[name](students, teachers)


def check_attention(layers: Sequence[int]) -> None:
    """Raise UserError where a map has a student layer learn its attention from the embeddings, which have none."""
    if 0 in layers:
        raise UserError(
            f"layer map {','.join(map(str, layers))}: layer 0 is the embeddings, which have no attention to compare: "
            "count layers from 1, or leave the loss on attention out"
        )


def rising(costs: Sequence[Sequence[float]]) -> tuple[int, ...]:
    """The strictly rising map with the least sum of costs, `costs[m - 1][n - 1]` being that of student layer m with n.

    By dynamic programming over student layers; among equal sums the lower teacher layer. No map where there are more
    student than teacher layers.

    >>> rising([[0.1, 0.2, 0.9], [0.0, 0.5, 0.4]])
    (1, 3)
    """
    teachers = len(costs[0])
    # best[n]: the least sum and its map, among maps of the student layers so far that end at n or below it.
    best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())] * (teachers + 1)
    for row in costs:
        ahead: list[tuple[float, tuple[int, ...]]] = [(math.inf, ())]
        for layer in range(1, teachers + 1):
            total = best[layer - 1][0] + row[layer - 1]
            ahead.append((total, (*best[layer - 1][1], layer)) if total < ahead[-1][0] else ahead[-1])
        best = ahead
    return best[-1][1]


def relation_layer(teachers: int) -> int:
    """The one teacher layer whose relations are learned (MiniLMv2, arXiv 2012.15828): the last of up to 12, above that
    the one at seven eighths of the depth, which for BERT-large is the paper's upper-middle layer.

    >>> relation_layer(6), relation_layer(12), relation_layer(24)
    (6, 12, 21)
    """
    return teachers if teachers <= 12 else round(7 * teachers / 8)


def _explicit(text: str, students: int, teachers: int) -> tuple[int, ...]:
    try:
        layers = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"layer map {text!r}: expected teacher layers as in 2,4,6") from None
    if len(layers) != students:
        raise UserError(f"layer map {text!r} names {len(layers)} layers, the student has {students}")
    if min(layers) < 0 or max(layers) > teachers:
        raise UserError(f"layer map {text!r}: the teacher has layers 0 (embeddings) to {teachers}")
    return layers
