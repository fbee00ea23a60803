"""Which models no other model beats on both cost and quality."""

from collections.abc import Sequence


def pareto_front(points: Sequence[tuple[float, float]], *, higher_is_better: bool = True) -> list[bool]:
    """For each (cost, quality) whether it is on the front; cost is better when lower.

    A point is off the front when another is at least as good in both and better in one. Equal points share their fate.

    >>> pareto_front([(1.0, 0.8), (2.0, 0.9), (3.0, 0.85)])
    [True, True, False]
    """
    sign = 1.0 if higher_is_better else -1.0
    order = sorted(range(len(points)), key=lambda index: (points[index][0], -sign * points[index][1]))
    on_front = [False] * len(points)
    best, best_cost = float("-inf"), float("nan")
    for index in order:
        cost, quality = points[index][0], sign * points[index][1]
        if quality > best:
            best, best_cost = quality, cost
        on_front[index] = quality == best and cost == best_cost
    return on_front


def staircase(points: Sequence[tuple[float, float]], *, higher_is_better: bool = True) -> list[tuple[float, float]]:
    """The points of the front by rising cost, each once: what a line through the front is drawn from."""
    front = pareto_front(points, higher_is_better=higher_is_better)
    return sorted({point for point, on_front in zip(points, front, strict=True) if on_front})
