"""Where labels go so that they cover neither each other nor the points."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels, y upwards."""

    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: "Box") -> float:
        """The shared area."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(width, 0.0) * max(height, 0.0)

    def outside(self, bounds: "Box") -> float:
        """How many pixels stick out of `bounds`, all sides together."""
        return (
            max(bounds.left - self.left, 0.0)
            + max(self.right - bounds.right, 0.0)
            + max(bounds.bottom - self.bottom, 0.0)
            + max(self.top - bounds.top, 0.0)
        )


def place_labels(
    points: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    bounds: Box,
    *,
    obstacles: Sequence[Box] = (),
    radius: float = 7.0,
) -> list[Box]:
    """A box for each label, near its point.

    Each label in turn takes the place, among twelve directions at growing distances, with the least overlap with
    labels placed before, points, obstacles and the edge; nearer wins among equals.
    """
    markers = [Box(x - radius, y - radius, x + radius, y + radius) for x, y in points]
    taken = [*markers, *obstacles]
    placed = []
    for point, size in zip(points, sizes, strict=True):
        best = min(_candidates(point, size, radius), key=lambda item: _cost(item[1], taken, bounds) + item[0])
        placed.append(best[1])
        taken.append(best[1])
    return placed


def _candidates(point: tuple[float, float], size: tuple[float, float], radius: float) -> list[tuple[float, Box]]:
    """(a small price that rises with distance, the box)."""
    boxes = []
    for ring in range(6):
        for step in range(12):
            angle = 2 * math.pi * step / 12
            reach = radius + 1 + 9 * ring
            # The box touches the circle of that reach from outside, on the side of the angle.
            x = point[0] + math.cos(angle) * (reach + size[0] / 2)
            y = point[1] + math.sin(angle) * (reach + size[1] / 2)
            box = Box(x - size[0] / 2, y - size[1] / 2, x + size[0] / 2, y + size[1] / 2)
            boxes.append((ring + 0.01 * step, box))
    return boxes


def _cost(box: Box, taken: Sequence[Box], bounds: Box) -> float:
    return sum(box.overlap(other) for other in taken) + 100 * box.outside(bounds)


def spread_apart(positions: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move positions as little as needed to stand `gap` apart within low..high, keeping their order.

    >>> spread_apart([0.0, 1.0, 10.0], 4.0, 0.0, 12.0)
    [0.0, 4.0, 10.0]
    """
    order = sorted(range(len(positions)), key=lambda index: positions[index])
    gap = min(gap, (high - low) / max(len(positions) - 1, 1))
    values = [min(max(positions[index], low), high) for index in order]
    for index, _ in enumerate(values[1:], start=1):
        values[index] = max(values[index], values[index - 1] + gap)
    overshoot = values[-1] - high if values else 0.0
    if overshoot > 0:
        values[-1] = high
        for before, after in reversed(list(pairwise(range(len(values))))):
            values[before] = min(values[before], values[after] - gap)
    moved = dict(zip(order, values, strict=True))
    return [moved[index] for index in range(len(positions))]
