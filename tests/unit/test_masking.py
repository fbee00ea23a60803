"""Dynamic masking: exact counts, the 80/10/10 split, and what must never be chosen."""

import math

import numpy as np
import pytest
from toy_text import VOCABULARY, padded_pairs

from teacher.masking import Masked, frequency_weights, mask_by_weight, mask_pieces, prediction_count

MASK = 4


def _mask(ids: np.ndarray, candidates: np.ndarray, lengths: np.ndarray, seed: int = 0, most: int = 20) -> Masked:
    rng = np.random.default_rng(seed)
    return mask_pieces(ids, candidates, lengths, rng, mask=MASK, vocabulary=VOCABULARY, max_predictions=most)


def test_every_sequence_has_exactly_its_count() -> None:
    ids, candidates, lengths = padded_pairs(np.random.default_rng(1), 500, 128)
    masked = _mask(ids, candidates, lengths)
    expected = [min(20, max(1, round(0.15 * length))) for length in lengths.tolist()]
    assert np.bincount(masked.positions // 128, minlength=500).tolist() == expected
    assert prediction_count(lengths, 20).tolist() == expected


def test_only_candidates_change_and_labels_are_what_stood_there() -> None:
    ids, candidates, lengths = padded_pairs(np.random.default_rng(2), 300, 64)
    before = ids.copy()
    masked = _mask(ids, candidates, lengths)
    assert (ids == before).all()
    assert (masked.labels == ids.reshape(-1)[masked.positions]).all()
    assert candidates.reshape(-1)[masked.positions].all()
    untouched = np.ones(ids.size, dtype=bool)
    untouched[masked.positions] = False
    assert (masked.ids.reshape(-1)[untouched] == ids.reshape(-1)[untouched]).all()


def test_shares_over_a_million_tokens() -> None:
    ids, candidates, lengths = padded_pairs(np.random.default_rng(3), 8200, 128, shortest=120)
    assert lengths.sum() > 1_000_000
    masked = _mask(ids, candidates, lengths)
    chosen, now = len(masked.positions), masked.ids.reshape(-1)[masked.positions]
    assert chosen / lengths.sum() == pytest.approx(0.15, abs=0.002)
    assert (now == MASK).mean() == pytest.approx(0.8, abs=0.005)
    # One replacement in a thousand draws the piece that stood there or [MASK].
    assert (now == masked.labels).mean() == pytest.approx(0.1, abs=0.004)
    other = now[(now != MASK) & (now != masked.labels)]
    assert len(other) / chosen == pytest.approx(0.1, abs=0.004)
    counts = np.bincount(other, minlength=VOCABULARY)
    # Uniform over the whole vocabulary, specials included; [MASK] cannot be told from the 80 %.
    # The chi-square statistic has a mean of about 999 and a deviation of about 45.
    assert counts[:4].min() > 0
    expected = len(other) / (VOCABULARY - 1)
    statistic = ((np.delete(counts, MASK) - expected) ** 2 / expected).sum()
    assert abs(statistic - VOCABULARY) < 5 * np.sqrt(2 * VOCABULARY)


def test_every_place_is_equally_likely() -> None:
    ids = np.full((20_000, 22), 7)
    ids[:, 0], ids[:, 10], ids[:, 21] = 2, 3, 3
    masked = _mask(ids, ids > 4, np.full(20_000, 22))
    counts = np.bincount(masked.positions % 22, minlength=22)
    assert counts[[0, 10, 21]].tolist() == [0, 0, 0]
    chosen = np.delete(counts, [0, 10, 21])
    assert chosen / 20_000 == pytest.approx(3 / 19, rel=0.06)


def test_same_seed_same_masks_other_seed_others() -> None:
    arguments = padded_pairs(np.random.default_rng(4), 32, 128)
    first, again, other = _mask(*arguments, seed=5), _mask(*arguments, seed=5), _mask(*arguments, seed=6)
    assert (first.ids == again.ids).all() and (first.positions == again.positions).all()
    assert first.positions.tolist() != other.positions.tolist()


def test_few_candidates_and_the_upper_bound() -> None:
    ids = np.array([[2, 3, 3, 0, 0, 0], [2, 9, 3, 8, 3, 0]])
    masked = _mask(ids, ids > 4, np.array([3, 5]))
    assert len(masked.positions) == 1 and masked.positions[0] in (7, 9)
    long = np.full((4, 400), 9)
    assert len(_mask(long, long > 4, np.full(4, 400), most=20).positions) == 80


def _by_weight(ids: np.ndarray, weights: np.ndarray, seed: int) -> Masked:
    rng = np.random.default_rng(seed)
    return mask_by_weight(ids, weights, int((ids != 0).sum()), rng, mask=MASK, vocabulary=VOCABULARY)


def test_frequency_weights_are_the_published_ones() -> None:
    weights = frequency_weights(np.array([50, 0, 1, 7, 1000]), specials=[0, 2])
    assert weights.tolist() == pytest.approx([0.0, 1.0, 0.0, 7**-0.7, 1000**-0.7])


def test_a_batch_has_exactly_its_count_and_no_specials() -> None:
    ids, _, lengths = padded_pairs(np.random.default_rng(5), 32, 48)
    weights = frequency_weights(np.bincount(ids.reshape(-1), minlength=VOCABULARY), specials=range(5))
    masked = _by_weight(ids, weights, seed=0)
    assert len(set(masked.positions.tolist())) == len(masked.positions) == math.ceil(0.15 * lengths.sum())
    assert (np.diff(masked.positions) > 0).all()
    assert (masked.labels == ids.reshape(-1)[masked.positions]).all() and masked.labels.min() > 4
    untouched = np.delete(masked.ids.reshape(-1), masked.positions)
    assert (untouched == np.delete(ids.reshape(-1), masked.positions)).all()
    few = np.array([[2, 9, 3, 0]])
    assert _by_weight(few, weights, seed=0).positions.tolist() == [1]
    assert _by_weight(np.array([[2, 3, 0, 0]]), weights, seed=0).positions.tolist() == []


def test_rare_pieces_are_masked_as_often_as_one_draw_after_another_masks_them() -> None:
    """Over 100,000 tokens, against numpy's draws without replacement, one at a time."""
    rng = np.random.default_rng(6)
    shares = np.array([0.5, 0.25, 0.12, 0.08, 0.03, 0.015, 0.005])
    batches = [10 + rng.choice(len(shares), size=(32, 64), p=shares) for _ in range(50)]
    counts = np.bincount(np.concatenate([batch.reshape(-1) for batch in batches]), minlength=VOCABULARY)
    assert counts.sum() > 100_000
    weights = frequency_weights(counts, specials=range(5))
    ours, slow = np.zeros(VOCABULARY), np.zeros(VOCABULARY)
    for number, ids in enumerate(batches):
        masked = _by_weight(ids, weights, seed=number)
        ours += np.bincount(masked.labels, minlength=VOCABULARY)
        odds = weights[ids.reshape(-1)]
        drawn = rng.choice(ids.size, size=len(masked.labels), replace=False, p=odds / odds.sum())
        slow += np.bincount(ids.reshape(-1)[drawn], minlength=VOCABULARY)
    assert ours.sum() == slow.sum() == 50 * math.ceil(0.15 * 32 * 64)
    for piece in range(10, 17):
        share = slow[piece] / counts[piece]
        deviation = np.sqrt(2 * counts[piece] * share * (1 - share))
        assert abs(ours[piece] - slow[piece]) < 4.5 * max(deviation, 1.0), piece
    rates = ours[10:17] / counts[10:17]
    assert (np.diff(rates) > 0).all() and rates[-1] > 3 * rates[0]


def test_what_replaces_weighted_pieces_is_80_10_10() -> None:
    ids = np.random.default_rng(7).integers(5, VOCABULARY, size=(500, 128))
    masked = _by_weight(ids, np.ones(VOCABULARY), seed=1)
    now = masked.ids.reshape(-1)[masked.positions]
    assert (now == MASK).mean() == pytest.approx(0.8, abs=0.02)
    assert (now == masked.labels).mean() == pytest.approx(0.1, abs=0.012)
