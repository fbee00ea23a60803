"""Statistics against closed forms and second formulations."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.bootstrap import bootstrap_difference, bootstrap_mean_difference, mean_and_spread
from reports.statistics import mcnemar_p, retained, seed_difference


def accuracy(predictions: np.ndarray, references: np.ndarray) -> float:
    return float(np.mean(predictions == references))


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 20))
def test_mcnemar_is_the_two_sided_binomial_tail(only_first: int, only_second: int, both: int) -> None:
    first = [True] * only_first + [False] * only_second + [True] * both
    second = [False] * only_first + [True] * only_second + [True] * both
    n = only_first + only_second
    tail = sum(math.comb(n, k) for k in range(min(only_first, only_second) + 1)) / 2**n
    assert mcnemar_p(first, second) == pytest.approx(min(1.0, 2 * tail), rel=1e-9)


def test_mcnemar_refuses_other_examples() -> None:
    with pytest.raises(ValueError, match="same examples"):
        mcnemar_p([True], [True, False])


def test_identical_models_differ_by_zero_to_zero() -> None:
    rng = np.random.default_rng(0)
    predictions = [rng.integers(0, 3, 200) for _ in range(3)]
    right = rng.integers(0, 3, 200)
    interval = bootstrap_difference(predictions, predictions, right, accuracy, resamples=200)
    assert (interval.difference, interval.low, interval.high) == (0, 0, 0)
    scores = [values == right for values in predictions]
    interval = bootstrap_mean_difference(scores, scores)
    assert (interval.difference, interval.low, interval.high) == (0, 0, 0)


@pytest.mark.parametrize(("seeds", "other_seeds"), [(1, 1), (3, 3), (3, 1)])
def test_fast_path_equals_the_general_one(seeds: int, other_seeds: int) -> None:
    rng = np.random.default_rng(1)
    right = rng.integers(0, 4, 150)
    model = [np.where(rng.random(150) < 0.8, right, 0) for _ in range(seeds)]
    other = [np.where(rng.random(150) < 0.6, right, 0) for _ in range(other_seeds)]
    slow = bootstrap_difference(model, other, right, accuracy, resamples=300, seed=7)
    fast = bootstrap_mean_difference([a == right for a in model], [b == right for b in other], resamples=300, seed=7)
    assert [fast.difference, fast.low, fast.high] == pytest.approx([slow.difference, slow.low, slow.high], abs=1e-12)


def test_bootstrap_of_a_mean_is_near_the_normal_interval() -> None:
    rng = np.random.default_rng(2)
    model, other = rng.normal(0.3, 1, 3000), rng.normal(0, 1, 3000)
    interval = bootstrap_mean_difference([model], [other], resamples=4000)
    paired = model - other
    half = 1.96 * paired.std() / math.sqrt(3000)
    assert interval.difference == pytest.approx(paired.mean())
    assert interval.low == pytest.approx(paired.mean() - half, abs=0.08 * half)
    assert interval.high == pytest.approx(paired.mean() + half, abs=0.08 * half)


def test_pairing_narrows_the_interval() -> None:
    """Two models right on the same examples but a few: the interval is that of the few, not of either accuracy."""
    model, other = np.ones(1000), np.ones(1000)
    model[:400], other[:410] = 0, 0
    interval = bootstrap_mean_difference([model], [other])
    assert 0.003 < interval.low < 0.01 < interval.high < 0.018


def test_spread_over_seeds_widens_the_interval() -> None:
    scores = np.zeros((3, 1000))
    scores[0, :400], scores[1, :600], scores[2, :500] = 1, 1, 1
    one = bootstrap_mean_difference([scores.mean(axis=0)], [np.zeros(1000)])
    three = bootstrap_mean_difference(list(scores), [np.zeros(1000)])
    assert three.high - three.low > 1.5 * (one.high - one.low)


def test_seeded() -> None:
    model, other = np.arange(50) % 2, np.arange(50) % 3 == 0
    assert bootstrap_mean_difference([model], [other], seed=3) == bootstrap_mean_difference([model], [other], seed=3)
    assert bootstrap_mean_difference([model], [other], seed=3) != bootstrap_mean_difference([model], [other], seed=4)


def test_resamples_without_a_value_are_left_out() -> None:
    def undefined_for_one_class(predictions: np.ndarray, references: np.ndarray) -> float:
        return accuracy(predictions, references) if len(set(references)) > 1 else float("nan")

    right = np.array([0, 0, 0, 1])
    interval = bootstrap_difference([right], [1 - right], right, undefined_for_one_class, resamples=200)
    assert (interval.difference, interval.low, interval.high) == (1, 1, 1)
    with pytest.raises(ValueError, match="not finite"):
        bootstrap_difference([right], [right], right, lambda *_: float("nan"), resamples=10)


def test_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="same 3 examples"):
        bootstrap_difference([[1, 2, 3]], [[1, 2]], [1, 2, 3], accuracy)
    with pytest.raises(ValueError, match="at least one"):
        bootstrap_difference([[1]], [], [1], accuracy)


def test_mean_and_spread() -> None:
    assert mean_and_spread([1.0, 2.0, 6.0]) == (3.0, pytest.approx(math.sqrt(7)))
    assert mean_and_spread([0.5]) == (0.5, None)
    with pytest.raises(ValueError, match="no values"):
        mean_and_spread([])


def test_retained() -> None:
    assert retained(0.84, 0.8) == pytest.approx(1.05)
    assert retained(0.1, 0.0) is None
    assert retained(0.1, -0.2) is None


def test_seed_difference_is_welch() -> None:
    """Against the textbook formula with t(0.975, 4) = 2.776445 for equal variances and sizes."""
    interval = seed_difference([1.0, 2.0, 3.0], [0.0, 1.0, 2.0])
    assert interval is not None
    assert interval.difference == 1
    assert interval.high - 1 == pytest.approx(2.776445 * math.sqrt(2 / 3), rel=1e-6)
    assert seed_difference([1.0], [0.0, 1.0]) is None
    same = seed_difference([0.5, 0.5], [0.25, 0.25])
    assert same is not None
    assert (same.low, same.high) == (0.25, 0.25)
