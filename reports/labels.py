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
    others: Sequence[Box] = (),
    obstacles: Sequence[Box] = (),
    radius: float = 7.0,
) -> list[Box]:
    """A box for each label, near its point.

    Each label in turn takes the place, among twelve directions at growing distances, with the least overlap with
    labels placed before, points, others, obstacles and the edge; nearer wins among equals. Lying on a label, a point
    or one of `others` costs more than lying on an obstacle, such as a line.
    """
    taken = [*marker_boxes(points, radius), *others]
    placed = []
    for point, size in zip(points, sizes, strict=True):
        found = [(price + _cost(box, taken, obstacles, bounds), box) for price, box in _candidates(point, size, radius)]
        best = min(found, key=lambda item: item[0])[1]
        placed.append(best)
        taken.append(best)
    return placed


def marker_boxes(points: Sequence[tuple[float, float]], radius: float = 7.0) -> list[Box]:
    return [Box(x - radius, y - radius, x + radius, y + radius) for x, y in points]


def place_on_line(height: float, size: tuple[float, float], bounds: Box, taken: Sequence[Box]) -> Box:
    """A box for the name of a level line: on the line or hanging from it, the further right the better."""
    width, tall = size
    found = []
    for step in range(9):
        right = bounds.right - step * max(bounds.right - bounds.left - width, 0) / 8
        for below, bottom in enumerate((height + 2, height - 2 - tall)):
            box = Box(right - width, bottom, right, bottom + tall)
            found.append((step + 0.5 * below + _cost(box, taken, (), bounds), box))
    return min(found, key=lambda item: item[0])[1]


def leader(point: tuple[float, float], box: Box, *, radius: float = 7.0) -> tuple[tuple[float, float], ...]:
    """The line from a point to a label that lies too far off to be seen as its own; empty where it lies near."""
    end = (min(max(point[0], box.left), box.right), min(max(point[1], box.bottom), box.top))
    distance = math.dist(point, end)
    if distance < radius + 8:
        return ()
    share = radius / distance
    return (point[0] + share * (end[0] - point[0]), point[1] + share * (end[1] - point[1])), end


def _candidates(point: tuple[float, float], size: tuple[float, float], radius: float) -> list[tuple[float, Box]]:
    """(a small price that rises with distance, the box)."""
    boxes = []
    for ring in range(14):
        for step in range(12):
            angle = 2 * math.pi * step / 12
            reach = radius + 1 + 9 * ring
            # The box touches the circle of that reach from outside, on the side of the angle.
            x = point[0] + math.cos(angle) * (reach + size[0] / 2)
            y = point[1] + math.sin(angle) * (reach + size[1] / 2)
            box = Box(x - size[0] / 2, y - size[1] / 2, x + size[0] / 2, y + size[1] / 2)
            boxes.append((ring + 0.01 * step, box))
    return boxes


def _cost(box: Box, taken: Sequence[Box], obstacles: Sequence[Box], bounds: Box) -> float:
    collisions = 20 * sum(box.overlap(other) for other in taken) + sum(box.overlap(other) for other in obstacles)
    return collisions + 100 * box.outside(bounds)


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
