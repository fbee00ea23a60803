"""The table of masking modes: weights, counts over parts of a batch, and masks that stay."""

import math

import numpy as np
import pytest
from toy_text import pieces_of

from common.errors import UserError
from teacher import domain
from teacher.corpus import Corpus
from teacher.domain import domain_weights, general_counts
from teacher.masking import mask_pieces
from teacher.maskings import MASKINGS, Masks, hide
from teacher.tokenizer import train_wordpiece

WORDS = ["ba", "be", "bi", "bo", "bu", "da", "de", "di", "do", "du"]
TOKENIZER = train_wordpiece([" ".join(WORDS), "bababa dedede"] * 3, vocabulary=40)
VOCABULARY = len(TOKENIZER)
OPTIONS = {"mask": TOKENIZER.mask_token_id, "vocabulary": VOCABULARY, "max_predictions": 20}


def _counts() -> np.ndarray:
    return np.arange(VOCABULARY) ** 2


def _masks(mode: str, *, static: bool = False) -> Masks:
    return Masks(choose=MASKINGS[mode](TOKENIZER, _counts, lambda: np.ones(VOCABULARY, dtype=np.int64)), static=static)


def _batch(rows: int, length: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(8, length + 1, size=rows)
    ids = rng.integers(5, VOCABULARY, size=(rows, length))
    ids[:, 0] = TOKENIZER.cls_token_id
    ids[np.arange(length) == lengths[:, None] - 1] = TOKENIZER.sep_token_id
    ids[np.arange(length) >= lengths[:, None]] = TOKENIZER.pad_token_id
    return ids, ids > 4, lengths


@pytest.mark.parametrize("mode", MASKINGS)
def test_every_mode_hides_pieces_with_their_labels(mode: str) -> None:
    ids, candidates, lengths = _batch(64, 40)
    masked = hide(_masks(mode), ids, candidates, lengths, range(64), rng=np.random.default_rng(0), seed=0, **OPTIONS)
    assert (masked.labels == ids.reshape(-1)[masked.positions]).all() and (np.diff(masked.positions) > 0).all()
    assert candidates.reshape(-1)[masked.positions].all()
    assert len(masked.positions) / lengths.sum() == pytest.approx(0.15, abs=0.02)
    assert (masked.ids.reshape(-1)[masked.positions] == OPTIONS["mask"]).mean() == pytest.approx(0.8, abs=0.12)
    again = hide(_masks(mode), ids, candidates, lengths, range(64), rng=np.random.default_rng(0), seed=9, **OPTIONS)
    assert (again.ids == masked.ids).all()


@pytest.mark.parametrize("mode", MASKINGS)
def test_static_masks_follow_from_seed_and_example_alone(mode: str) -> None:
    ids, candidates, lengths = _batch(12, 40)
    masks, numbers = _masks(mode, static=True), np.arange(100, 112)

    def hidden(rows: list[int], width: int = 40, seed: int = 3, draws: int = 0) -> list[list[int]]:
        found = hide(
            *(masks, ids[rows, :width], candidates[rows, :width], lengths[rows], numbers[rows]),
            rng=np.random.default_rng(draws), seed=seed, **OPTIONS,
        )  # fmt: skip
        restored = found.ids.copy()
        restored.reshape(-1)[found.positions] = found.labels
        assert (restored == ids[rows, :width]).all()
        return [row[:length] for row, length in zip(found.ids.tolist(), lengths[rows], strict=True)]

    whole = hidden(list(range(12)))
    assert whole != [row[:length] for row, length in zip(ids.tolist(), lengths, strict=True)]
    rows = [7, 2, int(lengths.argmin())]
    assert hidden(rows, width=int(lengths[rows].max()), draws=5) == [whole[row] for row in rows]
    assert hidden(list(range(12)), seed=4) != whole
    numbers = numbers + 1
    assert hidden(list(range(12))) != whole


def test_domain_weights_grow_with_the_share_here_and_fall_with_that_elsewhere() -> None:
    domain, general = np.array([5, 90, 9, 0, 0]), np.array([0, 9, 90, 0, 5])
    weights = domain_weights(domain, general, specials=[0])
    assert weights[0] == 0.0
    expected = [math.sqrt((d + 1) / (104 + 5) / ((g + 1) / (104 + 5))) for d, g in zip(domain, general, strict=True)]
    assert weights[1:].tolist() == pytest.approx(expected[1:])
    assert weights[1] > weights[3] > weights[2]
    # Twice as much of the same text changes nothing but the smoothing.
    assert domain_weights(1000 * domain, 2000 * general, [0])[1] == pytest.approx(math.sqrt(90 / 9), rel=1e-2)


def test_weighted_pieces_are_drawn_as_one_after_another_draws_them() -> None:
    """Over a million tokens, against numpy's draws without replacement in each sequence."""
    rng = np.random.default_rng(6)
    weights = np.zeros(20)
    weights[10:17] = [8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.125]
    ids = rng.integers(9, 17, size=(32_000, 32))
    ids[:, 0], ids[:, -1] = 2, 3
    masked = mask_pieces(
        ids, ids > 4, np.full(32_000, 32), rng, mask=4, vocabulary=20, max_predictions=9, weights=weights
    )
    assert ids.size > 1_000_000 and len(masked.positions) == 5 * 32_000
    ours = np.bincount(masked.labels, minlength=20)
    assert ours[9] == 0, "a piece without weight was chosen"
    slow = np.zeros(20)
    rows = 4000
    for row in ids[:rows]:
        odds = weights[row] / weights[row].sum()
        slow += np.bincount(row[rng.choice(32, size=5, replace=False, p=odds)], minlength=20)
    shares, expected = ours / ours.sum(), slow / slow.sum()
    assert np.abs(shares - expected).max() < 4.5 * math.sqrt(0.25 / (5 * rows))
    assert (np.diff(shares[10:17]) < 0).all()


def _corpus(documents: list[str]) -> Corpus:
    return Corpus("made", {}, lambda _: iter(documents))


def test_counts_of_a_text_and_of_drawn_general_text(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = pieces_of([[[5, 7, 7]], [[5]]])
    assert pieces.counts(9).tolist() == [0, 0, 0, 0, 0, 2, 0, 2, 0]
    assert pieces.counts().tolist() == [0, 0, 0, 0, 0, 2, 0, 2]
    counts = general_counts(_corpus(["ba be", "ba"]), TOKENIZER, "x")
    ba, be = TOKENIZER.convert_tokens_to_ids(["ba", "be"])
    assert (counts[ba], counts[be], counts.sum(), len(counts)) == (2, 1, 3, VOCABULARY)
    with pytest.raises(UserError, match="--general-text x: no text"):
        general_counts(_corpus([]), TOKENIZER, "x")
    # Of much text a part is counted, from all over it.
    monkeypatch.setattr(domain, "GENERAL_CHARACTERS", 200)
    some = general_counts(_corpus(["ba"] * 500 + ["be"] * 500), TOKENIZER, "x")
    assert some.sum() == 100 and abs(int(some[ba]) - 50) < 4.5 * 5
