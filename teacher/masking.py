"""Masked language modelling: which pieces are hidden, and what stands in their place."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SHARE = 0.15
"""Of a sequence, specials counted, that is to be predicted."""

SMOOTHING = 0.7
"""Exponent of the frequency weights."""


@dataclass(frozen=True, slots=True)
class Masked:
    """A batch after masking. k is the number of pieces to predict."""

    ids: np.ndarray
    """(batch, length): the input with its replacements."""
    positions: np.ndarray
    """(k,) int64, rising: places in the flattened batch, row x length + column."""
    labels: np.ndarray
    """(k,): the pieces that stood there."""


def prediction_count(lengths: np.ndarray, max_predictions: int) -> np.ndarray:
    """How many pieces of each sequence are predicted: min(max_predictions, max(1, round(0.15 x length with specials))).

    >>> prediction_count(np.array([4, 10, 20, 128, 512]), max_predictions=20).tolist()
    [1, 2, 3, 19, 20]
    """
    # rint rounds halves to even, as Python's round does in the released code: 10 pieces give 2, not 1.
    return np.minimum(max_predictions, np.maximum(1, np.rint(SHARE * lengths).astype(np.int64)))


def mask_pieces(
    ids: np.ndarray,
    candidates: np.ndarray,
    lengths: np.ndarray,
    rng: np.random.Generator,
    *,
    mask: int,
    vocabulary: int,
    max_predictions: int,
    weights: np.ndarray | None = None,
) -> Masked:
    """Choose pieces to predict and replace them: 80 % by [MASK], 10 % kept, 10 % by any piece of the vocabulary.

    `ids` are (batch, length) padded pieces, not changed; `candidates` (batch, length) is True for pieces that may be
    chosen: no specials, no padding; `lengths` (batch,) counts the pieces of each sequence, specials included. With
    `weights` (vocabulary,) the pieces of a sequence are drawn without replacement, each with odds of its weight.

    A pure function of its arguments and of the generator's state. Drawn anew each time an example is served it is
    RoBERTa's dynamic masking (arXiv 1907.11692), with the choice of BERT (arXiv 1810.04805, section 3.1, appendix A.1).

    >>> ids = np.array([[2, 10, 11, 12, 13, 14, 15, 16, 17, 3]])
    >>> rng = np.random.default_rng(1)
    >>> masked = mask_pieces(ids, ids > 4, np.array([10]), rng, mask=4, vocabulary=20, max_predictions=20)
    >>> masked.positions.tolist(), masked.labels.tolist()
    ([4, 5], [13, 14])
    >>> masked.ids.tolist()  # the first was kept, the second hidden
    [[2, 10, 11, 12, 13, 4, 15, 16, 17, 3]]
    """
    if weights is None:
        scores = rng.random(ids.shape, dtype=np.float32)
    else:
        candidates = candidates & (weights[ids] > 0)
        scores = _clocks(ids, np.where(weights > 0, weights, 1.0), rng)
    scores[~candidates] = np.inf
    counts = np.minimum(prediction_count(lengths, max_predictions), candidates.sum(axis=1))
    # The row's counts-th smallest score is the bar below which a piece is chosen; equal scores have odds of 2^-24 and
    # would only choose one piece more.
    bars = np.take_along_axis(np.sort(scores, axis=1), np.maximum(counts - 1, 0)[:, None], axis=1)
    positions = np.flatnonzero((scores <= bars) & candidates)
    return replace_pieces(ids, positions, rng, mask=mask, vocabulary=vocabulary)


def _clocks(ids: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """When the exponential clock of each piece rings, its rate being the weight.

    The first of several to ring is i with probability w_i / sum(w), the next ones likewise among the rest: so the n
    smallest times are n draws without replacement.
    """
    return rng.exponential(size=ids.shape) / weights[ids]


def frequency_weights(counts: np.ndarray, specials: Sequence[int]) -> np.ndarray:
    """Weight of each piece from how often it occurs in the text: count^-0.7, specials 0; absent pieces count as 1.

    DistilBERT's released code: rare pieces are predicted more often than frequent ones (as in XLM, arXiv 1901.07291).

    >>> frequency_weights(np.array([5, 1, 0, 1024]), specials=[0]).round(4).tolist()
    [0.0, 1.0, 1.0, 0.0078]
    """
    weights = np.maximum(counts, 1).astype(np.float64) ** -SMOOTHING
    weights[list(specials)] = 0.0
    return weights


def mask_by_weight(
    ids: np.ndarray, weights: np.ndarray, real: int, rng: np.random.Generator, *, mask: int, vocabulary: int
) -> Masked:
    """Choose pieces of a whole batch without replacement, each with odds of its weight, and replace them as above.

    `ids` are (batch, length) padded pieces, not changed; `weights` (vocabulary,) from `frequency_weights`, 0 for the
    padding piece too; `real` is the count of real pieces, specials included. n = ceil(0.15 x real), or all that have
    a weight where those are fewer. A sequence may have many of them or none, as in DistilBERT's released code.
    """
    pieces = ids.reshape(-1)
    candidates = np.flatnonzero(weights[pieces])
    count = min(math.ceil(SHARE * real), len(candidates))
    times = _clocks(pieces[candidates], weights, rng)
    positions = np.sort(candidates[np.argsort(times, kind="stable")[:count]])
    return replace_pieces(ids, positions, rng, mask=mask, vocabulary=vocabulary)


def replace_pieces(
    ids: np.ndarray, positions: np.ndarray, rng: np.random.Generator, *, mask: int, vocabulary: int
) -> Masked:
    """80 % of `positions` become [MASK], 10 % stay, 10 % become any piece of the vocabulary."""
    labels = ids.reshape(-1)[positions]
    draws = rng.random(len(positions), dtype=np.float32)
    replacements = np.where(draws < 0.8, mask, labels)
    anything = draws >= 0.9
    replacements[anything] = rng.integers(0, vocabulary, size=int(anything.sum()))
    replaced = ids.copy()
    replaced.reshape(-1)[positions] = replacements
    return Masked(ids=replaced, positions=positions, labels=labels)
