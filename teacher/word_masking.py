"""Masking of whole words and of runs of them, for all sequences of a batch at once."""

from dataclasses import dataclass

import numpy as np

from teacher.masking import Masked, prediction_count, replace_pieces

LONGEST = 3
"""Words of a run, at most (ALBERT, arXiv 1909.11942, section 4.1)."""


def mask_words(
    ids: np.ndarray,
    candidates: np.ndarray,
    lengths: np.ndarray,
    rng: np.random.Generator,
    *,
    starts: np.ndarray,
    mask: int,
    vocabulary: int,
    max_predictions: int,
    longest: int = 1,
) -> Masked:
    """Choose whole words, or runs of up to `longest` of them, and replace their pieces 80/10/10, one at a time.

    Arguments as of `teacher.masking.mask_pieces`; `starts` (vocabulary,) from `teacher.word_starts`. A word is a piece
    that starts one and the following ones that do not; what a cut text begins with is a word too. The words of a
    sequence are gone through in random order, until the count of `prediction_count` is reached. At each, a run of n
    words from there on is drawn with p(n) proportional to 1/n among the lengths that end before the next special. It
    is shortened to what still fits the count, and skipped if nothing does or a word of it is chosen already. So a
    sequence may have fewer than its count, never more. Source: the released code of BERT (whole words) and ALBERT.

    >>> ids = np.array([[2, 10, 21, 11, 22, 23, 12, 3]])  # 20 and above go on with a word
    >>> starts = np.arange(30) < 20
    >>> rng = np.random.default_rng(2)
    >>> mask_words(ids, ids > 4, np.array([8]), rng, starts=starts, mask=4, vocabulary=30, max_predictions=9).positions
    array([6])
    """
    words = find_words(ids, candidates, starts, longest)
    counts = np.minimum(prediction_count(lengths, max_predictions), candidates.sum(axis=1))
    chosen = choose_runs(words, counts, rng, longest)
    positions = words.pieces[chosen[words.row_of_piece, words.column_of_piece]]
    return replace_pieces(ids, positions, rng, mask=mask, vocabulary=vocabulary)


@dataclass(frozen=True, kw_only=True)
class Words:
    """The words of a batch. w is the largest number of words in a sequence."""

    sizes: np.ndarray
    """(batch, w + longest): pieces of each word in the order of the text, 0 after the last."""
    counts: np.ndarray
    """(batch,): words of each sequence."""
    follow: np.ndarray
    """(batch, w): words of the longest run that may begin at each."""
    pieces: np.ndarray
    """(k,) places of all candidates in the flattened batch, rising."""
    row_of_piece: np.ndarray
    """(k,) the sequence of each of them,"""
    column_of_piece: np.ndarray
    """(k,) and its word in there."""


def find_words(ids: np.ndarray, candidates: np.ndarray, starts: np.ndarray, longest: int) -> Words:
    """Cut the candidates of a batch into words; anything else ends a word, and a run."""
    after_other = np.ones_like(candidates)
    after_other[:, 1:] = ~candidates[:, :-1]
    begins = candidates & (starts[ids] | after_other)
    pieces = np.flatnonzero(candidates)
    rows, numbers = pieces // ids.shape[1], (np.cumsum(begins, axis=1) - 1).reshape(-1)
    columns = numbers[pieces]
    counts = begins.sum(axis=1)
    width = int(counts.max(initial=0))
    sizes = np.zeros((len(ids), width + longest), dtype=np.int64)
    np.add.at(sizes, (rows, columns), 1)
    # A word that does not come straight after another one: no run goes on into it.
    opens = np.ones((len(ids), width + longest), dtype=bool)
    first = np.flatnonzero(begins)
    opens[first // ids.shape[1], numbers[first]] = after_other.reshape(-1)[first]
    follow = np.ones((len(ids), width), dtype=np.int64)
    joined = np.ones((len(ids), width), dtype=bool)
    for step in range(1, longest):
        joined &= ~opens[:, step : step + width]
        follow += joined
    return Words(sizes=sizes, counts=counts, follow=follow, pieces=pieces, row_of_piece=rows, column_of_piece=columns)


def choose_runs(words: Words, counts: np.ndarray, rng: np.random.Generator, longest: int) -> np.ndarray:
    """(batch, w + longest) boolean: the words that are chosen, of at most `counts` (batch,) pieces in each sequence.

    Draws a random number a word for the order, then another for the length of the run.
    """
    batch, width = words.follow.shape
    keys = rng.random((batch, width))
    keys[np.arange(width) >= words.counts[:, None]] = np.inf
    order = np.argsort(keys, axis=1)
    runs = run_lengths(rng.random((batch, width)), words.follow)
    ends = np.zeros((batch, words.sizes.shape[1] + 1), dtype=np.int64)
    np.cumsum(words.sizes, axis=1, out=ends[:, 1:])
    chosen = np.zeros(words.sizes.shape, dtype=bool)
    room, row, steps = counts.copy(), np.arange(batch), np.arange(longest)
    # One word of every sequence at a time: who is left over after a few of them is mostly full.
    for rank in range(width):
        if not room.any():
            break
        word = order[:, rank]
        places = word[:, None] + steps
        spans = ends[row[:, None], places + 1] - ends[row, word][:, None]
        run = np.minimum(runs[row, word], (spans <= room[:, None]).sum(axis=1))
        members = steps < run[:, None]
        free = ~(chosen[row[:, None], places] & members).any(axis=1)
        taken = members & (free & (rank < words.counts))[:, None]
        chosen[row[:, None], places] |= taken
        room -= (words.sizes[row[:, None], places] * taken).sum(axis=1)
    return chosen


def run_lengths(draws: np.ndarray, follow: np.ndarray) -> np.ndarray:
    """Uniform numbers below 1 to run lengths 1..`follow`, with odds 1/n; both and the result have one shape.

    >>> run_lengths(np.array([0.0, 0.54, 0.55, 0.81, 0.82, 0.99]), np.full(6, 3)).tolist()
    [1, 1, 2, 2, 3, 3]
    """
    most = int(follow.max(initial=1))
    sums = np.cumsum(1.0 / np.arange(1, most + 1))
    levels = draws * sums[follow - 1]
    return 1 + (levels[..., None] >= sums[:-1]).sum(axis=-1)
