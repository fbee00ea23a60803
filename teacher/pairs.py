"""Next-sentence pairs from documents, after BERT's released pretraining code."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.errors import UserError
from teacher.blocks import document_blocks, joined
from teacher.pieces import Pieces

SHORT = 0.1
"""Probability that a document pass aims at a shorter pair."""

SPECIALS = 3
"""[CLS] A [SEP] B [SEP]."""

_PAIRS = 4
"""Keeps this stream of random numbers apart from those of documents, masks and batches."""


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Pairs as spans of `Pieces.ids`: n pairs take 40 n bytes, whatever their length."""

    spans: np.ndarray
    """int64 (n, 4): start and end of A, start and end of B."""
    labels: np.ndarray
    """int64 (n,): 0 B follows A, 1 B is random."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> np.ndarray:
        """(n,) pieces of each pair, specials included."""
        return _lengths(self.spans)

    @property
    def random_share(self) -> float:
        """Share of label 1: above one half, since a document's rest of one sentence has no other choice."""
        return float(self.labels.mean()) if len(self) else 0.0


def _lengths(spans: np.ndarray) -> np.ndarray:
    return spans[:, 1] - spans[:, 0] + spans[:, 3] - spans[:, 2] + SPECIALS


def draw_pairs(pieces: Pieces, *, length: int, seed: int, passes: int = 1, folder: Path | None = None) -> Pairs:
    """Every document cut into pairs of at most `length` pieces with specials, `passes` times anew.

    A pass of a document collects sentences up to a target length: length - 3, or with probability 0.1 uniform in
    2..length - 3. Source: METHODS of BERT (arXiv 1810.04805, appendix A.2) and its released code.

    Blocks of documents are drawn together, so memory is bounded where the pairs are written to a `folder` and mapped
    from there; without one they are held.

    Raises:
        UserError: fewer than two documents (a random next sentence comes from another one), or no room.
    """
    if len(pieces) < 2:
        raise UserError(f"next-sentence pairs need at least 2 documents with text, found {len(pieces)}: give more text")
    return collect_pairs(document_pairs, pieces, length=length, seed=seed, passes=passes, stream=_PAIRS, folder=folder)


DrawPairs = Callable[
    [Pieces, np.ndarray, int, np.ndarray, np.random.Generator],
    tuple[np.ndarray, np.ndarray],
]
"""(pieces, numbers of documents, room, their targets, generator) to spans (n, 4) and labels (n,)."""


def collect_pairs(
    draw: DrawPairs, pieces: Pieces, *, length: int, seed: int, passes: int, stream: int, folder: Path | None
) -> Pairs:
    """The pairs that `draw` makes of all documents, each with a target of its own in every pass.

    `stream` keeps the random numbers of a kind of pairs apart from those of others.

    Raises:
        UserError: no room.
    """
    if length < SPECIALS + 2:
        raise UserError(f"--length {length}: a pair needs at least {SPECIALS + 2} pieces")
    room = length - SPECIALS

    def blocks() -> Iterator[tuple[np.ndarray, ...]]:
        for number in range(passes):
            for documents in document_blocks(pieces):
                rng = np.random.default_rng((seed, number, stream, int(documents[0])))
                count = len(documents)
                targets = np.where(rng.random(count) < SHORT, rng.integers(2, room + 1, count), room)
                yield draw(pieces, documents, room, targets, rng)

    spans, labels = joined(blocks(), ("spans", "labels"), folder)
    return Pairs(spans=spans, labels=labels)


def document_pairs(
    pieces: Pieces, numbers: np.ndarray, room: int, targets: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of one pass of the documents `numbers`, each with a target (documents,): spans (n, 4), labels (n,).

    In each round every document that is not at its end gives one pair. A round draws four uniform numbers for each of
    them (where A ends, whether B is random, its document, its sentence), then the coins of `truncate`.
    """
    # As plain arrays: indexing a memory map makes a memory map of every result.
    starts, documents = np.asarray(pieces.sentences), np.asarray(pieces.documents)
    first, last = documents[numbers], documents[numbers + 1]
    spans, labels = [np.zeros((0, 4), np.int64)], [np.zeros(0, np.int64)]
    while len(numbers):
        draws = rng.random((4, len(numbers)))
        stop = reached(starts, first, targets, last)
        collected = stop - first
        cut = first + 1 + (draws[0] * (collected - 1)).astype(np.int64)
        random = (collected == 1) | (draws[1] < 0.5)
        wanted = targets - (starts[cut] - starts[first])
        begin, end = _random_next(starts, documents, numbers, wanted, draws[2:])
        pair = np.stack(
            [starts[first], starts[cut], starts[np.where(random, begin, cut)], starts[np.where(random, end, stop)]], 1
        )
        spans.append(truncate(pair, room, rng))
        labels.append(random.astype(np.int64))
        first = np.where(random, cut, stop)
        going = first < last
        numbers, first, last, targets = numbers[going], first[going], last[going], targets[going]
    return np.concatenate(spans), np.concatenate(labels)


def reached(starts: np.ndarray, first: np.ndarray, wanted: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The sentence before which `wanted` pieces are collected from sentence `first` on; at least one, to `last`."""
    return np.clip(np.searchsorted(starts, starts[first] + wanted), first + 1, last)


def _random_next(
    starts: np.ndarray, documents: np.ndarray, numbers: np.ndarray, wanted: np.ndarray, draws: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sentences of another document from a random one on, until `wanted` pieces or the document's end; at least one."""
    other = (draws[0] * (len(documents) - 2)).astype(np.int64)
    other += other >= numbers
    first, last = documents[other], documents[other + 1]
    begin = first + (draws[1] * (last - first)).astype(np.int64)
    return begin, reached(starts, begin, wanted, last)


def truncate(spans: np.ndarray, room: int, rng: np.random.Generator) -> np.ndarray:
    """Shorten pairs (n, 4) to `room` pieces, one at a time from the longer side (B of equal ones), front or back by a
    coin.

    >>> truncate(np.array([[0, 4, 10, 14]]), 8, np.random.default_rng(0)).tolist()
    [[0, 4, 10, 14]]
    >>> cut = truncate(np.array([[0, 4, 10, 20]]), 7, np.random.default_rng(0))
    >>> (cut[:, [1, 3]] - cut[:, [0, 2]]).tolist()
    [[4, 3]]
    """
    lengths = spans[:, [1, 3]] - spans[:, [0, 2]]
    excess = np.maximum(0, lengths.sum(axis=1) - room)
    level = np.minimum(excess, abs(lengths[:, 0] - lengths[:, 1]))
    cut_a = np.where(lengths[:, 0] > lengths[:, 1], level, 0) + (excess - level) // 2
    cuts = np.stack([cut_a, excess - cut_a], axis=1)
    # Of as many coins as pieces go, those that fall on the front.
    front = rng.binomial(cuts, 0.5)
    cut = spans.copy()
    cut[:, [0, 2]] += front
    cut[:, [1, 3]] -= cuts - front
    return cut


def pad_pairs(
    pieces: Pieces, pairs: Pairs, indices: Sequence[int] | np.ndarray, *, cls: int, sep: int, pad: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[CLS] A [SEP] B [SEP], padded to the longest: ids and segments (batch, length) int64, lengths (batch,)."""
    spans = pairs.spans[np.asarray(indices)]
    lengths = _lengths(spans)
    columns = np.arange(int(lengths.max()))
    middle, end = (spans[:, 1] - spans[:, 0] + 1)[:, None], (lengths - 1)[:, None]
    second = columns > middle
    filled = (columns > 0) & (columns != middle) & (columns < end)
    places = columns + np.where(second, spans[:, 2, None] - middle, spans[:, 0, None]) - 1
    ids = np.full(filled.shape, pad, dtype=np.int64)
    ids[filled] = pieces.ids[places[filled]]
    ids[:, 0] = cls
    np.put_along_axis(ids, np.concatenate([middle, end], axis=1), sep, axis=1)
    return ids, (second & (columns <= end)).astype(np.int64), lengths
