"""Whole words and runs of words against a plain reference, one sequence and one word at a time."""

import numpy as np
import pytest
from toy_text import VOCABULARY, padded_pairs

from teacher.masking import Masked, prediction_count
from teacher.word_masking import find_words, mask_words, run_lengths

MASK = 4
STARTS = np.arange(VOCABULARY) < 700
"""A third of the pieces goes on with a word."""


def _mask(batch: tuple[np.ndarray, ...], longest: int, seed: int = 0, most: int = 20) -> Masked:
    rng = np.random.default_rng(seed)
    return mask_words(
        *batch, rng, starts=STARTS, mask=MASK, vocabulary=VOCABULARY, max_predictions=most, longest=longest
    )


def _words(ids: list[int], candidates: list[bool]) -> list[list[list[int]]]:
    """Segments of words of places."""
    segments: list[list[list[int]]] = [[]]
    for place, piece in enumerate(ids):
        if not candidates[place]:
            segments.append([])
        elif STARTS[piece] or not segments[-1]:
            segments[-1].append([place])
        else:
            segments[-1][-1].append(place)
    return segments


def _reference(ids: list[int], candidates: list[bool], count: int, keys: list, draws: list, longest: int) -> set[int]:
    """The places chosen in one sequence: words in the order of their keys, runs of 1/n odds that fit and are free."""
    runs = []
    for words in _words(ids, candidates):
        runs += [words[start : start + longest] for start in range(len(words))]
    chosen: set[int] = set()
    for number in sorted(range(len(runs)), key=lambda number: keys[number]):
        odds = np.array([1 / size for size in range(1, len(runs[number]) + 1)])
        size = 1 + int((draws[number] >= np.cumsum(odds / odds.sum())[:-1]).sum())
        while size and sum(map(len, runs[number][:size])) > count - len(chosen):
            size -= 1
        places = {place for word in runs[number][:size] for place in word}
        if not places & chosen:
            chosen |= places
    return chosen


@pytest.mark.parametrize("longest", [1, 2, 3])
def test_equal_to_the_plain_reference(longest: int) -> None:
    ids, candidates, lengths = padded_pairs(np.random.default_rng(1), 300, 60)
    masked = _mask((ids, candidates, lengths), longest, seed=7)
    rng = np.random.default_rng(7)
    width = int(find_words(ids, candidates, STARTS, longest).counts.max())
    keys, draws = rng.random((300, width)), rng.random((300, width))
    counts = prediction_count(lengths, 20)
    expected = []
    for row in range(300):
        count = min(int(counts[row]), int(candidates[row].sum()))
        places = _reference(ids[row].tolist(), candidates[row].tolist(), count, keys[row], draws[row], longest)
        expected += sorted(row * 60 + place for place in places)
    assert masked.positions.tolist() == expected
    assert (masked.labels == ids.reshape(-1)[expected]).all()
    coins = rng.random(len(expected), dtype=np.float32)
    anything = iter(rng.integers(0, VOCABULARY, size=int((coins >= 0.9).sum())).tolist())
    for place, coin in zip(expected, coins.tolist(), strict=True):
        before = int(ids.reshape(-1)[place])
        now = MASK if coin < 0.8 else next(anything) if coin >= np.float32(0.9) else before
        assert masked.ids.reshape(-1)[place] == now


@pytest.fixture(scope="module")
def million() -> tuple[np.ndarray, ...]:
    return padded_pairs(np.random.default_rng(3), 8200, 128, shortest=120)


@pytest.mark.parametrize("longest", [1, 3])
def test_over_a_million_tokens(million: tuple[np.ndarray, ...], longest: int) -> None:
    """15 % chosen, no word in parts, no sequence over its count, and 80/10/10 a piece at a time."""
    ids, candidates, lengths = million
    assert lengths.sum() > 1_000_000
    masked = _mask(million, longest)
    chosen = len(masked.positions)
    per_row = np.bincount(masked.positions // 128, minlength=len(ids))
    counts = prediction_count(lengths, 20)
    assert (per_row <= counts).all()
    assert (per_row == counts).mean() > 0.999
    assert chosen / lengths.sum() == pytest.approx(0.15, abs=0.002)
    assert candidates.reshape(-1)[masked.positions].all()
    hidden = np.zeros(ids.size, dtype=bool)
    hidden[masked.positions] = True
    inside = candidates.copy()
    inside[:, 1:] &= candidates[:, :-1] & ~STARTS[ids][:, 1:]
    inside[:, 0] = False
    inside = np.flatnonzero(inside)
    assert len(inside) > 250_000
    assert (hidden[inside] == hidden[inside - 1]).all()
    now = masked.ids.reshape(-1)[masked.positions]
    for share, found in ((0.8, now == MASK), (0.1, now == masked.labels)):
        # One replacement in a thousand draws the piece that stood there or [MASK].
        bound = 4.5 * np.sqrt(share * (1 - share) / chosen) + 2e-4
        assert abs(found.mean() - share) < bound
    # A piece's fate does not follow that of the piece before it in its word.
    kept = np.zeros(ids.size, dtype=bool)
    kept[masked.positions] = now == masked.labels
    both = inside[hidden[inside]]
    share = kept[both][kept[both - 1]].mean()
    assert abs(share - 0.1) < 4.5 * np.sqrt(0.09 / kept[both - 1].sum()) + 2e-4


def test_lengths_of_runs_have_the_odds_of_one_over_n() -> None:
    draws = np.random.default_rng(0).random(1_000_000)
    for most, odds in ((3, np.array([6, 3, 2]) / 11), (2, np.array([2, 1]) / 3), (1, np.array([1.0]))):
        counts = np.bincount(run_lengths(draws, np.full(len(draws), most)), minlength=most + 1)[1:]
        statistic = ((counts - 1e6 * odds) ** 2 / (1e6 * odds)).sum()
        assert len(counts) == most and statistic < 25


def test_words_alone_are_chosen_with_equal_odds_and_runs_hide_neighbours(million: tuple[np.ndarray, ...]) -> None:
    single, runs = _mask(million, 1), _mask(million, 3)
    neighbours = [float((np.diff(masked.positions) == 1).mean()) for masked in (single, runs)]
    assert neighbours[1] > neighbours[0] + 0.15
    ids = np.tile(np.concatenate([[2], np.arange(10, 29), [3]]), (20_000, 1))
    masked = _mask((ids, ids > 4, np.full(20_000, 21)), 1)
    counts = np.bincount(masked.labels, minlength=29)[10:]
    assert counts.sum() == 60_000
    assert ((counts - 60_000 / 19) ** 2 / (60_000 / 19)).sum() < 60


def test_a_word_that_is_too_long_is_skipped_and_a_cut_one_is_a_word() -> None:
    # One piece may be hidden: of the words 800 801, 10 900 and 11 only the last fits.
    ids = np.array([[2, 800, 801, 10, 900, 11, 3]])
    for seed in range(20):
        assert _mask((ids, ids > 4, np.array([7])), 1, seed=seed).positions.tolist() == [5]
    none = np.array([[2, 10, 900, 901, 3]])
    assert _mask((none, none > 4, np.array([5])), 3).positions.tolist() == []
