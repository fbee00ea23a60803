"""What else is said of two models: exact McNemar, the smallest visible difference, spread over seeds."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from common.bootstrap import Interval


def smallest_visible(count: int, *, level: float = 0.95) -> int:
    """On how many of `count` examples two classifiers must differ, all in one's favour, to keep zero out of the
    percentile interval of the paired bootstrap: the least k with (1 - k/count)^count < (1 - level)/2.

    >>> smallest_visible(24), smallest_visible(1000)
    (4, 4)
    """
    return next(k for k in range(1, count + 1) if (1 - k / count) ** count < (1 - level) / 2)


def mcnemar_p(model_right: ArrayLike, other_right: ArrayLike) -> float:
    """Two-sided exact p-value that two classifiers err equally often on the same examples.

    p = min(1, 2 P(X <= min(b, c))) with X ~ Binomial(b + c, 1/2), where b and c count the examples that only one of
    the two gets right. Source: McNemar, Psychometrika 12, 1947, in its exact form.
    """
    first, second = np.asarray(model_right, dtype=bool), np.asarray(other_right, dtype=bool)
    if first.shape != second.shape:
        raise ValueError(f"the two models must answer the same examples: {first.shape} and {second.shape}")
    only_first, only_second = int(np.sum(first & ~second)), int(np.sum(second & ~first))
    if only_first + only_second == 0:
        return 1.0
    return float(stats.binomtest(only_first, only_first + only_second, 0.5).pvalue)


def retained(value: float, teacher: float) -> float | None:
    """value / teacher, or None where the teacher's value is not positive and the ratio would mislead."""
    return value / teacher if teacher > 0 else None


def seed_difference(model: Sequence[float], other: Sequence[float], *, level: float = 0.95) -> Interval | None:
    """Interval of mean(model) - mean(other) from the values by seed alone; None with fewer than two seeds of either.

    Welch's t interval: variances may differ. Source: Welch, Biometrika 34, 1947.
    """
    if min(len(model), len(other)) < 2:
        return None
    difference = float(np.mean(model) - np.mean(other))
    parts = np.array([np.var(values, ddof=1) / len(values) for values in (model, other)])
    if parts.sum() == 0:
        return Interval(difference=difference, low=difference, high=difference, level=level)
    freedom = parts.sum() ** 2 / (parts**2 / [len(model) - 1, len(other) - 1]).sum()
    half = float(stats.t.ppf((1 + level) / 2, freedom) * np.sqrt(parts.sum()))
    return Interval(difference=difference, low=difference - half, high=difference + half, level=level)
