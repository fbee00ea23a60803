"""The best spans in logits of starts and ends, for many windows at once."""

from dataclasses import dataclass

import numpy as np

LONGEST = 30
"""Pieces of an answer."""
_ROWS = 512
"""Windows looked at together, which bounds memory."""


@dataclass(frozen=True, kw_only=True)
class Spans:
    """One of each row."""

    score: np.ndarray
    """Logit of the start plus that of the end; -inf where a row has no position that counts."""
    start: np.ndarray
    end: np.ndarray
    """Last position."""


def best_spans(logits: np.ndarray, first: np.ndarray, count: np.ndarray, *, longest: int = LONGEST) -> Spans:
    """The span with the highest sum of logits in each row of `logits` (n, l, 2), starts and ends.

    Both of its ends are among the `count` (n,) positions from `first` (n,) on, the end not before the start, and no
    more than `longest` positions. Of several equally good ones that with the earliest start, then with the earliest
    end.
    """
    parts = [
        _best(logits[row : row + _ROWS], first[row : row + _ROWS], count[row : row + _ROWS], longest)
        for row in range(0, len(logits), _ROWS)
    ]
    score, start, end = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Spans(score=score, start=start, end=end)


def _best(
    logits: np.ndarray, first: np.ndarray, count: np.ndarray, longest: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    places = np.arange(logits.shape[1])
    inside = (places >= first[:, None]) & (places < (first + count)[:, None])
    starts, ends = (np.where(inside, logits[..., side], -np.inf) for side in (0, 1))
    best, extra = starts + ends, np.zeros(inside.shape, dtype=np.int64)
    for more in range(1, min(longest, len(places))):
        score = starts[:, :-more] + ends[:, more:]
        better = score > best[:, :-more]
        best[:, :-more][better] = score[better]
        extra[:, :-more][better] = more
    start = best.argmax(axis=1)
    rows = np.arange(len(start))
    return best[rows, start], start, start + extra[rows, start]


def best_rows(score: np.ndarray, example: np.ndarray) -> np.ndarray:
    """For each example, numbered from 0, the row with its highest score, the earliest among equals.

    >>> best_rows(np.array([1.0, 3.0, 3.0, 0.5]), np.array([0, 0, 0, 1])).tolist()
    [1, 3]
    """
    order = np.lexsort((np.arange(len(score)), -score, example))
    return order[np.unique(example[order], return_index=True)[1]]


def best_threshold(margin: np.ndarray, answered: np.ndarray, unanswered: np.ndarray) -> float:
    """The threshold t for which not answering where margin > t, and answering elsewhere, adds up to most.

    (n,) each: the score of no answer less that of the best one; what answering is worth, and what not answering is. Of
    several equally good thresholds the one nearest to 0.
    """
    order = np.argsort(margin, kind="stable")
    sorted_margin, gain = margin[order], (answered - unanswered)[order]
    # The first k examples are answered, those with the smaller margins.
    value = np.concatenate([[0.0], np.cumsum(gain)])
    lower = np.concatenate([[-np.inf], sorted_margin])
    upper = np.concatenate([sorted_margin, [np.inf]])
    possible = lower < upper
    value = np.where(possible, np.round(value, 9), -np.inf)
    best = np.flatnonzero(value == value.max())
    nearest = [_nearest_zero(lower[place], upper[place]) for place in best]
    return float(min(nearest, key=lambda threshold: (abs(threshold), threshold)))


def _nearest_zero(lower: float, upper: float) -> float:
    """Of the thresholds from `lower` (which is answered) to before `upper`: 0, else the middle, else one beyond."""
    if lower <= 0 < upper:
        return 0.0
    if not np.isfinite(lower):
        return upper - 1.0
    return lower + 1.0 if not np.isfinite(upper) else (lower + upper) / 2
