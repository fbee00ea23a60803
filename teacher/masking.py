"""Masked language modelling: which pieces are hidden, and what stands in their place."""

from dataclasses import dataclass

import numpy as np

SHARE = 0.15
"""Of a sequence, specials counted, that is to be predicted."""


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
) -> Masked:
    """Choose pieces to predict and replace them: 80 % by [MASK], 10 % kept, 10 % by any piece of the vocabulary.

    `ids` are (batch, length) padded pieces, not changed; `candidates` (batch, length) is True for pieces that may be
    chosen: no specials, no padding; `lengths` (batch,) counts the pieces of each sequence, specials included.

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
    scores = rng.random(ids.shape, dtype=np.float32)
    scores[~candidates] = 2.0
    counts = np.minimum(prediction_count(lengths, max_predictions), candidates.sum(axis=1))
    # The row's counts-th smallest score is the bar below which a piece is chosen; equal scores have odds of 2^-24 and
    # would only choose one piece more.
    bars = np.take_along_axis(np.sort(scores, axis=1), np.maximum(counts - 1, 0)[:, None], axis=1)
    positions = np.flatnonzero((scores <= bars) & candidates)
    labels = ids.reshape(-1)[positions]
    draws = rng.random(len(positions), dtype=np.float32)
    replacements = np.where(draws < 0.8, mask, labels)
    anything = draws >= 0.9
    replacements[anything] = rng.integers(0, vocabulary, size=int(anything.sum()))
    replaced = ids.copy()
    replaced.reshape(-1)[positions] = replacements
    return Masked(ids=replaced, positions=positions, labels=labels)
