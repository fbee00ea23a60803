"""Sentence-order pairs and packed segments against plain references on lists, and the distributions of pairs."""

import random
from pathlib import Path

import numpy as np
import pytest
from toy_text import Documents, numbered, pieces_of

from common.errors import UserError
from teacher.examples import EXAMPLES, draw_examples
from teacher.order import document_order_pairs, draw_order_pairs
from teacher.pairs import draw_pairs
from teacher.segments import Segments, pack_segments, pad_segments


def _flat(sentences: list[list[int]]) -> list[int]:
    return [piece for sentence in sentences for piece in sentence]


def _order_reference(document: list[list[int]], target: int, rng: np.random.Generator) -> list[tuple]:
    """Before truncation: (A, B, label), by the released code's loop."""
    found, collected = [], []
    for place, sentence in enumerate(document):
        collected.append(sentence)
        last = place == len(document) - 1
        if len(collected) >= 2 and (last or len(_flat(collected)) >= target):
            where, coin = rng.random((2, 1))[:, 0]
            end = 1 + int(where * (len(collected) - 1))
            a, b = _flat(collected[:end]), _flat(collected[end:])
            found.append((b, a, 1) if coin < 0.5 else (a, b, 0))
            collected = []
    return found


@pytest.mark.parametrize("target", [2, 11, 40])
def test_order_pairs_equal_the_plain_reference(target: int) -> None:
    documents = numbered(random.Random(0), 60, most_sentences=12, most_pieces=15)
    pieces = pieces_of(documents)
    for number, document in enumerate(documents):
        rng = np.random.default_rng(number)
        rows, labels = document_order_pairs(pieces, np.array([number]), 10**6, np.array([target]), rng)
        spans = [
            (pieces.ids[a:b].tolist(), pieces.ids[c:d].tolist(), label)
            for (a, b, c, d), label in zip(rows.tolist(), labels.tolist(), strict=True)
        ]
        assert spans == _order_reference(document, target, np.random.default_rng(number))


def test_order_pairs_of_documents_drawn_together_are_shortened_on_either_side() -> None:
    pieces = pieces_of(numbered(random.Random(4), 300, most_sentences=9, most_pieces=60))
    pairs = draw_order_pairs(pieces, length=64, seed=0)
    lengths = pairs.spans[:, [1, 3]] - pairs.spans[:, [0, 2]]
    assert pairs.lengths.max() == 64 and lengths.min() > 0
    full = pairs.lengths == 64
    assert full.mean() > 0.3
    # A swapped pair's second side still comes first in the text, and nothing overlaps.
    first = np.where(pairs.labels[:, None] == 1, pairs.spans[:, [2, 3, 0, 1]], pairs.spans)
    assert (first[:, 1] <= first[:, 2]).all()
    cut = [~np.isin(pairs.spans[:, places].ravel(), pieces.sentences) for places in ([0, 2], [1, 3])]
    assert cut[0].sum() > 100 and cut[0].mean() == pytest.approx(cut[1].mean(), rel=0.2)


def test_order_pairs_over_a_million_tokens() -> None:
    """Swapped half the time, neighbours in one document, and a tenth of the passes aims shorter."""
    pieces = pieces_of(numbered(random.Random(1), 2700, most_sentences=80, most_pieces=20))
    assert len(pieces.ids) > 1_000_000
    pairs = draw_order_pairs(pieces, length=10_000, seed=0)
    swapped = pairs.labels == 1
    assert abs(swapped.mean() - 0.5) < 4.5 * 0.5 / np.sqrt(len(pairs))
    assert (pairs.spans[swapped, 3] == pairs.spans[swapped, 0]).all()
    assert (pairs.spans[~swapped, 1] == pairs.spans[~swapped, 2]).all()
    # With room for everything, a document has more than one pair only where its pass aimed shorter.
    starts = np.minimum(pairs.spans[:, 0], pairs.spans[:, 2])
    owner = np.searchsorted(pieces.sentences[pieces.documents], starts, side="right")
    several = np.bincount(owner)[1:] > 1
    assert 0 < several.mean() < 0.1
    short = draw_order_pairs(pieces, length=64, seed=0)
    assert short.lengths.max() == 64 and abs(short.labels.mean() - 0.5) < 4.5 * 0.5 / np.sqrt(len(short))
    assert draw_order_pairs(pieces, length=64, seed=1).spans.tolist() != short.spans.tolist()
    twice = draw_order_pairs(pieces, length=64, seed=0, passes=2)
    assert (twice.spans[: len(short)] == short.spans).all() and len(twice) > 1.9 * len(short)


def test_a_lone_sentence_has_no_order() -> None:
    pieces = pieces_of([[[5, 6]], [[7], [8]], [[9]]])
    assert sorted(draw_order_pairs(pieces, length=9, seed=0).spans[0].tolist()) == [2, 3, 3, 4]
    with pytest.raises(UserError, match="at least two sentences"):
        draw_order_pairs(pieces_of([[[5, 6]], [[7]]]), length=9, seed=0)
    with pytest.raises(UserError, match="--length 4"):
        draw_order_pairs(pieces, length=4, seed=0)


def _packed_reference(documents: Documents, room: int) -> list[list[int]]:
    """Sentence by sentence: what fits is added, what does not begins a new segment, what never fits is cut."""
    found = []
    for document in documents:
        current: list[int] = []
        for sentence in document:
            rest = sentence
            if current and len(current) + len(rest) > room:
                found.append(current)
                current = []
            while len(rest) > room:
                found.append(rest[:room])
                rest = rest[room:]
            current = current + rest
        if current:
            found.append(current)
    return found


@pytest.mark.parametrize("length", [3, 9, 20, 500])
def test_segments_equal_the_plain_reference(length: int) -> None:
    documents = numbered(random.Random(2), 200, most_sentences=12, most_pieces=15)
    pieces = pieces_of(documents)
    segments = pack_segments(pieces, length=length)
    assert [pieces.ids[start:end].tolist() for start, end in segments.spans] == _packed_reference(documents, length - 2)
    assert segments.lengths.max() <= length


def test_segments_are_padded_with_their_specials() -> None:
    pieces = pieces_of([[[10, 11], [12]], [[13]]])
    segments = Segments(spans=np.array([[0, 3], [3, 4]]))
    ids, types, lengths = pad_segments(pieces, segments, [1, 0], cls=2, sep=3, pad=0)
    assert ids.tolist() == [[2, 13, 3, 0, 0], [2, 10, 11, 12, 3]]
    assert not types.any() and lengths.tolist() == [3, 5] == segments.lengths[[1, 0]].tolist()
    with pytest.raises(UserError, match="--length 2"):
        pack_segments(pieces, length=2)


def test_passes_are_as_many_as_static_masks_or_the_run_want() -> None:
    pieces = pieces_of(numbered(random.Random(3), 50, most_sentences=9, most_pieces=9))
    for kind in ("nsp", "sop", "segments"):
        once = len(draw_examples(pieces, kind, length=32, seed=0, wanted=1))
        many = draw_examples(pieces, kind, length=32, seed=0, wanted=10**6, most=3)
        static = draw_examples(pieces, kind, length=32, seed=0, wanted=1, most=3, all_passes=True)
        assert len(many) == (once if kind == "segments" else len(static))
        assert len(static) == pytest.approx(3 * once, rel=0.1)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_folder_changes_nothing_and_is_drawn_into_again(kind: str, tmp_path: Path) -> None:
    pieces = pieces_of(numbered(random.Random(5), 90, most_sentences=9, most_pieces=9))
    options = {"length": 32, "seed": 0, "most": 3}
    held = draw_examples(pieces, kind, wanted=10**6, all_passes=True, **options)
    mapped = draw_examples(pieces, kind, wanted=10**6, all_passes=True, folder=tmp_path, **options)
    assert isinstance(mapped.spans, np.memmap) and (mapped.spans == held.spans).all()
    fewer = draw_examples(pieces, kind, wanted=1, folder=tmp_path, **options)
    assert len(fewer) < len(mapped) and (mapped.spans == held.spans).all()
    assert not list(tmp_path.glob(".*"))


def test_next_sentence_pairs_over_a_million_tokens() -> None:
    """One pass in ten aims shorter, uniformly; a coin decides about B where there is a choice; A is cut uniformly."""
    length, room, count = 24, 21, 20_000
    numbers = iter(range(5, 10**8))
    # Sentences of one piece: what is collected is the target to the letter.
    pieces = pieces_of([[[next(numbers)] for _ in range(51)] for _ in range(count)])
    assert len(pieces.ids) > 1_000_000
    pairs = draw_pairs(pieces, length=length, seed=0)
    ends = pieces.sentences[pieces.documents]
    owner = np.searchsorted(ends, pairs.spans[:, 0], side="right") - 1
    # A that is a document's last sentence, alone, leaves no choice.
    alone = (pairs.spans[:, 1] == ends[owner + 1]) & (pairs.spans[:, 1] - pairs.spans[:, 0] == 1)
    assert pairs.labels[alone].all() and alone.any()
    choice = pairs.labels[~alone]
    assert abs(choice.mean() - 0.5) < 4.5 * 0.5 / np.sqrt(len(choice))
    expected = (0.5 * len(choice) + alone.sum()) / len(pairs)
    assert abs(pairs.random_share - expected) < 4.5 * 0.5 / np.sqrt(len(pairs))
    # A random B may come to its document's end before the target, a next one of a first pair does not.
    first = np.unique(owner, return_index=True)[1]
    first = first[pairs.labels[first] == 0]
    targets = pairs.lengths[first] - 3
    # A target of the full room is drawn by one of the short passes in 20 too.
    share = 0.1 * (1 - 1 / (room - 1))
    assert abs((targets < room).mean() - share) < 4.5 * np.sqrt(share * (1 - share) / len(first))
    short = np.bincount(targets[targets < room], minlength=room)[2:]
    assert len(short) == room - 2 and short.sum() > 800
    assert ((short - short.mean()) ** 2 / short.mean()).sum() < room - 3 + 4.5 * np.sqrt(2 * (room - 3))
    full = (pairs.labels == 0) & (pairs.lengths == length)
    cuts = np.bincount(pairs.spans[full, 1] - pairs.spans[full, 0], minlength=room)[1:]
    assert len(cuts) == room - 1
    assert ((cuts - cuts.mean()) ** 2 / cuts.mean()).sum() < room - 2 + 4.5 * np.sqrt(2 * (room - 2))
