"""The front against brute force, and labels that keep out of each other's way."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.labels import Box, place_labels, spread_apart
from reports.pareto import pareto_front, staircase

POINTS = st.lists(st.tuples(st.integers(0, 6).map(float), st.integers(0, 6).map(float)), max_size=12)


def dominated(point: tuple[float, float], others: list[tuple[float, float]], sign: int) -> bool:
    return any(
        cost <= point[0] and sign * quality >= sign * point[1] and (cost, quality) != point for cost, quality in others
    )


@given(POINTS, st.booleans())
def test_front_equals_brute_force(points: list[tuple[float, float]], higher: bool) -> None:
    sign = 1 if higher else -1
    assert pareto_front(points, higher_is_better=higher) == [not dominated(point, points, sign) for point in points]


def test_ties_share_their_fate() -> None:
    assert pareto_front([(1, 0.9), (1, 0.9), (1, 0.8), (2, 0.9)]) == [True, True, False, False]


def test_staircase_rises_with_cost() -> None:
    assert staircase([(3, 0.9), (1, 0.5), (2, 0.4), (1, 0.5)]) == [(1, 0.5), (3, 0.9)]
    assert staircase([(3, 0.9), (1, 0.5)], higher_is_better=False) == [(1, 0.5)]


@given(st.lists(st.floats(0, 100), min_size=1, max_size=8))
def test_spread_apart_keeps_gaps_order_and_bounds(positions: list[float]) -> None:
    moved = spread_apart(positions, 10, 0, 100)
    assert all(-1e-9 <= value <= 100 + 1e-9 for value in moved)
    order = sorted(range(len(positions)), key=lambda index: positions[index])
    ranked = [moved[index] for index in order]
    assert all(after - before >= 10 - 1e-9 for before, after in pairwise(ranked))


def test_spread_apart_shares_too_little_room() -> None:
    assert spread_apart([5, 5, 5], 10, 0, 10) == [0, 5, 10]
    assert spread_apart([], 10, 0, 10) == []


@pytest.mark.parametrize("cluster", [1, 4, 8])
def test_labels_overlap_nothing_while_there_is_room(cluster: int) -> None:
    points = [(200 + 3.0 * index, 150 + 2.0 * index) for index in range(cluster)]
    bounds = Box(0, 0, 400, 300)
    boxes = place_labels(points, [(60, 12)] * cluster, bounds)
    markers = [Box(x - 5, y - 5, x + 5, y + 5) for x, y in points]
    for index, box in enumerate(boxes):
        assert box.outside(bounds) == 0
        assert sum(box.overlap(other) for other in boxes[:index] + boxes[index + 1 :] + markers) == 0


def test_labels_stay_inside_at_an_edge() -> None:
    bounds = Box(0, 0, 400, 300)
    for corner in [(0, 0), (400, 0), (0, 300), (400, 300)]:
        (box,) = place_labels([corner], [(80, 12)], bounds)
        assert box.outside(bounds) == 0
