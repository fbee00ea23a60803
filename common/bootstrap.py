"""How sure a difference between two models is, over paired examples and seeds: the interval, and its bootstrap."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Metric = Callable[[NDArray, NDArray], float]
"""From predictions and references, both of length n, to one number."""

_CHUNK = 100


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A paired-bootstrap interval of a difference, in the metric's own unit (0.01 = one point of accuracy)."""

    difference: float
    low: float
    high: float
    level: float = 0.95


def bootstrap_difference(
    model: Sequence[ArrayLike],
    other: Sequence[ArrayLike],
    references: ArrayLike,
    metric: Metric,
    *,
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Percentile interval of metric(model) - metric(other), resampling examples and seeds.

    Args:
        model: for each of its seeds the predictions, n along the first axis.
        other: the same for the model compared with; the examples are the same and in the same order.
        references: what is right, n along the first axis.
        metric: computed for each seed, then averaged over seeds. Resamples where it is not finite (a correlation over
            one repeated example) are left out.
        resamples: number of bootstrap draws.
        level: of the interval.
        seed: of the draws.

    One draw of n examples serves both models. Seeds are drawn too, in pairs where both models have the same number,
    so two identical models differ by 0 to 0. With k seeds the bootstrap understates their variance by (k-1)/k.
    Source: Koehn, Statistical significance tests for machine translation evaluation, EMNLP 2004, with seeds added.
    """
    right = np.asarray(references)
    predictions = [np.asarray(values) for values in (*model, *other)]
    _check([len(values) for values in predictions], len(right), len(model), len(other))
    rng = np.random.default_rng(seed)
    values = np.array(
        [
            [metric(one[rows], right[rows]) for one in predictions]
            for chunk in _draws(rng, len(right), resamples)
            for rows in chunk
        ]
    )
    point = np.array([metric(one, right) for one in predictions])
    return _interval(values, point, len(model), rng, level)


def bootstrap_sums_difference(
    model: Sequence[ArrayLike],
    other: Sequence[ArrayLike],
    combine: Callable[[NDArray], NDArray],
    *,
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """`bootstrap_difference` for a metric that follows from sums over examples; much faster.

    Such are means (accuracy, exact match) and F1 over all entities.

    Args:
        model: for each seed k numbers an example, (n, k).
        other: the same for the model compared with.
        combine: sums over examples (..., k) to the metric (...).
        resamples: number of bootstrap draws.
        level: of the interval.
        seed: of the draws.
    """
    numbers = [np.asarray(values, dtype=float) for values in (*model, *other)]
    _check([len(values) for values in numbers], len(numbers[0]), len(model), len(other))
    rng = np.random.default_rng(seed)
    table = np.stack(numbers, axis=1)
    # Counting how often each example was drawn turns the resampled sums into one matrix product.
    values = np.concatenate(
        [combine(np.tensordot(_counts(rows), table, axes=1)) for rows in _draws(rng, len(table), resamples)]
    )
    return _interval(values, combine(table.sum(axis=0)), len(model), rng, level)


def bootstrap_mean_difference(
    model: Sequence[ArrayLike], other: Sequence[ArrayLike], *, resamples: int = 2000, level: float = 0.95, seed: int = 0
) -> Interval:
    """`bootstrap_sums_difference` of a mean over examples; each seed gives one score an example, n each."""
    count = len(np.asarray(model[0])) if model else 0
    first, second = ([np.asarray(values, dtype=float)[:, None] for values in group] for group in (model, other))
    return bootstrap_sums_difference(
        first, second, lambda sums: sums[..., 0] / count, resamples=resamples, level=level, seed=seed
    )


def mean_and_spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and sample standard deviation (n - 1) over seeds; no deviation for one seed."""
    if not values:
        raise ValueError("no values")
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


def _check(lengths: Sequence[int], expected: int, seeds: int, other_seeds: int) -> None:
    if expected == 0 or seeds == 0 or other_seeds == 0:
        raise ValueError("a bootstrap needs at least one example and one seed of each model")
    if any(length != expected for length in lengths):
        raise ValueError(f"all models must answer the same {expected} examples, found lengths {sorted(set(lengths))}")


def _draws(rng: np.random.Generator, count: int, resamples: int) -> Iterator[NDArray]:
    """Row numbers drawn with replacement, in chunks of shape (up to 100, count): memory stays bounded."""
    for start in range(0, resamples, _CHUNK):
        yield rng.integers(0, count, size=(min(_CHUNK, resamples - start), count))


def _counts(rows: NDArray) -> NDArray:
    """How often each example was drawn, (resamples, n)."""
    draws, count = rows.shape
    flat = (rows + np.arange(draws)[:, None] * count).ravel()
    return np.bincount(flat, minlength=draws * count).reshape(draws, count)


def _interval(values: NDArray, point: NDArray, seeds: int, rng: np.random.Generator, level: float) -> Interval:
    """From the metric by resample and seed (resamples, seeds of both models) to the interval of the difference."""
    others = len(point) - seeds
    weights = _seed_weights(rng, len(values), seeds)
    other_weights = weights if others == seeds else _seed_weights(rng, len(values), others)
    differences = (values[:, :seeds] * weights).sum(axis=1) - (values[:, seeds:] * other_weights).sum(axis=1)
    finite = differences[np.isfinite(differences)]
    if len(finite) == 0:
        raise ValueError("the metric was not finite on any resample")
    low, high = np.quantile(finite, [(1 - level) / 2, (1 + level) / 2])
    difference = float(point[:seeds].mean() - point[seeds:].mean())
    return Interval(difference=difference, low=float(low), high=float(high), level=level)


def _seed_weights(rng: np.random.Generator, resamples: int, seeds: int) -> NDArray:
    return rng.multinomial(seeds, [1 / seeds] * seeds, size=resamples) / seeds
