"""Next-sentence pairs against a plain, slow reference on lists of tokens, and their distributions."""

import functools
import os
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from toy_text import Documents, numbered, pieces_of

from common.errors import UserError
from teacher.pairs import Pairs, document_pairs, draw_pairs, pad_pairs
from teacher.pieces import Pieces


def _reference_cut(a: list[int], b: list[int], room: int, rng: np.random.Generator) -> None:
    """One token at a time from the longer side, by a coin from the front or the back."""
    sides = []
    length = {"a": len(a), "b": len(b)}
    while sum(length.values()) > room:
        side = "a" if length["a"] > length["b"] else "b"
        length[side] -= 1
        sides.append(side)
    # The coins of both sides are drawn at once: how many of them fall on the front.
    fronts = rng.binomial([[sides.count("a"), sides.count("b")]], 0.5)[0]
    for name, tokens, front in (("a", a, fronts[0]), ("b", b, fronts[1])):
        for toss in range(sides.count(name)):
            tokens.pop(0 if toss < front else -1)


def _reference(documents: Documents, number: int, room: int, target: int, rng: np.random.Generator) -> list[tuple]:
    """The released code's loop over one document, in its own terms."""
    found = []
    document, collected, place = documents[number], [], 0
    while place < len(document):
        collected.append(document[place])
        if place == len(document) - 1 or sum(map(len, collected)) >= target:
            cut, choice, which, where = rng.random((4, 1))[:, 0]
            end = 1 + int(cut * (len(collected) - 1))
            a = [token for sentence in collected[:end] for token in sentence]
            if len(collected) == 1 or choice < 0.5:
                label, b = 1, []
                other = int(which * (len(documents) - 1))
                other = other + 1 if other >= number else other
                start = int(where * len(documents[other]))
                for sentence in documents[other][start:]:
                    b = b + sentence
                    if len(b) >= target - len(a):
                        break
                place -= len(collected) - end
            else:
                label, b = 0, [token for sentence in collected[end:] for token in sentence]
            _reference_cut(a, b, room, rng)
            found.append((a, b, label))
            collected = []
        place += 1
    return found


@pytest.mark.parametrize(("room", "target"), [(29, 29), (29, 2), (29, 11), (125, 125), (5, 5)])
def test_equal_to_the_plain_reference(room: int, target: int) -> None:
    documents = numbered(random.Random(0), 40, most_sentences=12, most_pieces=15)
    pieces = pieces_of(documents)
    for number in range(len(documents)):
        rng = np.random.default_rng(number)
        rows, labels = document_pairs(pieces, np.array([number]), room, np.array([target]), rng)
        spans = [
            (pieces.ids[a:b].tolist(), pieces.ids[c:d].tolist(), label)
            for (a, b, c, d), label in zip(rows.tolist(), labels.tolist(), strict=True)
        ]
        assert spans == _reference(documents, number, room, target, np.random.default_rng(number))


def test_a_documents_pairs_cover_it_and_stand_in_its_order() -> None:
    """Of many documents drawn together, each gives what it would: what a pair leaves over starts the next one."""
    pieces = pieces_of(numbered(random.Random(7), 60, most_sentences=30, most_pieces=4))
    targets = np.random.default_rng(0).integers(2, 20, 60)
    spans, labels = document_pairs(pieces, np.arange(60), 1000, targets, np.random.default_rng(0))
    owners = _owner(pieces, spans[:, 0])
    for document in range(60):
        place, end = pieces.sentences[pieces.documents[document : document + 2]]
        mine = owners == document + 1
        for (a, b, c, d), label in zip(spans[mine].tolist(), labels[mine].tolist(), strict=True):
            assert a == place and (label == 1 or b == c)
            place = b if label else d
        assert place == end


@functools.cache
def _long_documents() -> Pieces:
    """Sentences of one token: the collected length is the target to the letter."""
    number = iter(range(5, 10**7))
    return pieces_of([[[next(number)] for _ in range(300)] for _ in range(1500)])


def _owner(pieces: Pieces, places: np.ndarray) -> np.ndarray:
    return np.searchsorted(pieces.sentences[pieces.documents], places, side="right")


def test_labels_say_where_b_is_from() -> None:
    pieces = pieces_of(numbered(random.Random(1), 300, most_sentences=9, most_pieces=9))
    pairs = draw_pairs(pieces, length=200, seed=0)
    same = _owner(pieces, pairs.spans[:, 0]) == _owner(pieces, pairs.spans[:, 2])
    assert (same == (pairs.labels == 0)).all()
    # Nothing had to be cut here, so a next sentence begins where A ends.
    assert (pairs.spans[pairs.labels == 0, 1] == pairs.spans[pairs.labels == 0, 2]).all()


def test_half_are_random_where_there_is_a_choice_and_more_in_shortnumbered() -> None:
    assert draw_pairs(_long_documents(), length=32, seed=0).random_share == pytest.approx(0.5, abs=0.02)
    short = pieces_of(numbered(random.Random(2), 2000, most_sentences=2, most_pieces=9))
    assert draw_pairs(short, length=64, seed=0).random_share > 0.75


def test_a_tenth_of_the_passes_aims_shorter_uniformly() -> None:
    pieces = _long_documents()
    pairs = draw_pairs(pieces, length=32, seed=3, passes=4)
    whole = pairs.spans[pairs.labels == 0]
    owners, totals = _owner(pieces, whole[:, 0]), whole[:, 3] - whole[:, 0]
    # Of each document only what began at its start: later pairs may be its last sentences.
    first = whole[:, 0] == pieces.sentences[pieces.documents[owners - 1]]
    lengths = totals[first]
    assert lengths.max() == 29 and lengths.min() == 2
    short = lengths[lengths < 29]
    assert len(short) / len(lengths) == pytest.approx(0.1 * 27 / 28, abs=0.02)
    assert short.mean() == pytest.approx(15, abs=1.5)


def test_a_is_cut_uniformly() -> None:
    pieces = _long_documents()
    pairs = draw_pairs(pieces, length=13, seed=0)
    full = (pairs.labels == 0) & (pairs.lengths == 13)
    counts = Counter((pairs.spans[full, 1] - pairs.spans[full, 0]).tolist())
    assert sorted(counts) == list(range(1, 10))
    assert np.array(list(counts.values())) / full.sum() == pytest.approx(1 / 9, rel=0.1)


def test_no_pair_is_too_long_or_one_sided_and_cuts_fall_on_both_ends() -> None:
    pieces = pieces_of(numbered(random.Random(4), 400, most_sentences=6, most_pieces=80))
    pairs = draw_pairs(pieces, length=64, seed=0)
    assert pairs.lengths.max() == 64
    assert (pairs.spans[:, 1] > pairs.spans[:, 0]).all() and (pairs.spans[:, 3] > pairs.spans[:, 2]).all()
    cut_front = ~np.isin(pairs.spans[:, [0, 2]], pieces.sentences).ravel()
    cut_back = ~np.isin(pairs.spans[:, [1, 3]], pieces.sentences).ravel()
    assert cut_front.sum() > 100
    assert cut_front.mean() == pytest.approx(cut_back.mean(), rel=0.15)


def test_passes_differ_and_seeds_repeat() -> None:
    pieces = pieces_of(numbered(random.Random(5), 50, most_sentences=9, most_pieces=9))
    one, two = draw_pairs(pieces, length=32, seed=0), draw_pairs(pieces, length=32, seed=0, passes=2)
    assert (two.spans[: len(one)] == one.spans).all() and len(two) > 1.5 * len(one)
    assert two.spans[len(one) :].tolist() != one.spans.tolist()
    assert draw_pairs(pieces, length=32, seed=1).spans.tolist() != one.spans.tolist()


def test_blocks_and_a_folder_change_nothing_that_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = pieces_of(numbered(random.Random(8), 300, most_sentences=9, most_pieces=9))
    held, mapped = (draw_pairs(pieces, length=32, seed=0, passes=2, folder=folder) for folder in (None, tmp_path))
    assert isinstance(mapped.spans, np.memmap) and sorted(os.listdir(tmp_path)) == ["labels.npy", "spans.npy"]
    assert (held.spans == mapped.spans).all() and (held.labels == mapped.labels).all()
    monkeypatch.setattr("teacher.blocks.MOST_PIECES", 200)
    small = draw_pairs(pieces, length=32, seed=0, passes=2)
    assert len(small) == pytest.approx(len(held), rel=0.1)
    assert set(_owner(pieces, small.spans[:, 0])) == set(range(1, 301))
    monkeypatch.setattr("teacher.blocks.MOST_PIECES", 1)
    assert set(_owner(pieces, draw_pairs(pieces, length=32, seed=0).spans[:, 0])) == set(range(1, 301))


def test_padding_puts_specials_and_segments() -> None:
    pieces = pieces_of([[[10, 11], [12]], [[13], [14, 15, 16]]])
    pairs = Pairs(spans=np.array([[0, 2, 2, 3], [0, 1, 3, 7]]), labels=np.array([0, 1]))
    ids, segments, lengths = pad_pairs(pieces, pairs, [0, 1], cls=2, sep=3, pad=0)
    assert ids.tolist() == [[2, 10, 11, 3, 12, 3, 0, 0], [2, 10, 3, 13, 14, 15, 16, 3]]
    assert segments.tolist() == [[0, 0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1, 1, 1]]
    assert lengths.tolist() == pairs.lengths.tolist() == [6, 8]


def test_one_document_or_no_room_is_refused() -> None:
    with pytest.raises(UserError, match="at least 2 documents with text, found 1"):
        draw_pairs(pieces_of([[[5, 6], [7]]]), length=32, seed=0)
    with pytest.raises(UserError, match="--length 4"):
        draw_pairs(pieces_of([[[5]], [[6]]]), length=4, seed=0)
