"""Next-sentence pairs from documents, after BERT's released pretraining code."""

import random
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common.errors import UserError
from teacher.pieces import Pieces

SHORT = 0.1
"""Probability that a document pass aims at a shorter pair."""

SPECIALS = 3
"""[CLS] A [SEP] B [SEP]."""

Span = tuple[int, int]


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


def draw_pairs(pieces: Pieces, *, length: int, seed: int, passes: int = 1) -> Pairs:
    """Every document cut into pairs of at most `length` pieces with specials, `passes` times anew.

    A pass of a document collects sentences up to a target length: length - 3, or with probability 0.1 uniform in
    2..length - 3. Source: METHODS of BERT (arXiv 1810.04805, appendix A.2) and its released code.

    Raises:
        UserError: fewer than two documents (a random next sentence comes from another one), or no room.
    """
    if len(pieces) < 2:
        raise UserError(f"next-sentence pairs need at least 2 documents with text, found {len(pieces)}: give more text")
    if length < SPECIALS + 2:
        raise UserError(f"--length {length}: a pair needs at least {SPECIALS + 2} pieces")
    room = length - SPECIALS
    starts, documents = pieces.sentences.tolist(), pieces.documents.tolist()
    rows: list[tuple[int, int, int, int, int]] = []
    for number in range(passes):
        rng = random.Random(f"pairs {seed} {number}")
        for document in range(len(pieces)):
            target = rng.randint(2, room) if rng.random() < SHORT else room
            rows += document_pairs(starts, documents, document, room, target, rng)
    table = np.array(rows, dtype=np.int64).reshape(-1, 5)
    return Pairs(spans=table[:, :4].copy(), labels=table[:, 4].copy())


def document_pairs(
    starts: Sequence[int], documents: Sequence[int], document: int, room: int, target: int, rng: random.Random
) -> list[tuple[int, int, int, int, int]]:
    """The pairs of one pass of one document: (start A, end A, start B, end B, label)."""
    rows = []
    first, last = documents[document], documents[document + 1]
    while first < last:
        stop = bisect_left(starts, starts[first] + target, first + 1, last)
        collected = stop - first
        cut = first + (rng.randint(1, collected - 1) if collected > 1 else 1)
        a = (starts[first], starts[cut])
        if collected == 1 or rng.random() < 0.5:
            b, label, first = random_next(starts, documents, document, target - (a[1] - a[0]), rng), 1, cut
        else:
            b, label, first = (starts[cut], starts[stop]), 0, stop
        rows.append((*truncate(a, b, room, rng), label))
    return rows


def random_next(
    starts: Sequence[int], documents: Sequence[int], document: int, wanted: int, rng: random.Random
) -> Span:
    """Sentences of another document from a random one on, until `wanted` pieces or the document's end; at least one."""
    other = rng.randrange(len(documents) - 2)
    other += other >= document
    first, last = documents[other], documents[other + 1]
    begin = rng.randrange(first, last)
    return starts[begin], starts[bisect_left(starts, starts[begin] + wanted, begin + 1, last)]


def truncate(a: Span, b: Span, room: int, rng: random.Random) -> tuple[int, int, int, int]:
    """Shorten a pair to `room` pieces, one at a time from the longer side (B of equal ones), front or back by a coin.

    >>> truncate((0, 4), (10, 14), 8, random.Random(0))
    (0, 4, 10, 14)
    >>> start_a, end_a, start_b, end_b = truncate((0, 4), (10, 20), 7, random.Random(0))
    >>> end_a - start_a, end_b - start_b
    (4, 3)
    """
    length_a, length_b = a[1] - a[0], b[1] - b[0]
    excess = max(0, length_a + length_b - room)
    level = min(excess, abs(length_a - length_b))
    rest = excess - level
    cut_a = (level if length_a > length_b else 0) + rest // 2
    cut_b = excess - cut_a
    # As many coins as pieces go: the ones among random bits.
    front_a = rng.getrandbits(cut_a).bit_count() if cut_a else 0
    front_b = rng.getrandbits(cut_b).bit_count() if cut_b else 0
    return a[0] + front_a, a[1] - (cut_a - front_a), b[0] + front_b, b[1] - (cut_b - front_b)


def pad_pairs(
    pieces: Pieces, pairs: Pairs, indices: Sequence[int] | np.ndarray, *, cls: int, sep: int, pad: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[CLS] A [SEP] B [SEP], padded to the longest: ids and segments (batch, length) int64, lengths (batch,)."""
    spans = pairs.spans[np.asarray(indices)]
    lengths = _lengths(spans)
    ids = np.full((len(spans), int(lengths.max())), pad, dtype=np.int64)
    segments = np.zeros_like(ids)
    for row, (start_a, end_a, start_b, end_b) in enumerate(spans.tolist()):
        middle, end = end_a - start_a + 1, int(lengths[row]) - 1
        ids[row, 0], ids[row, middle], ids[row, end] = cls, sep, sep
        ids[row, 1:middle] = pieces.ids[start_a:end_a]
        ids[row, middle + 1 : end] = pieces.ids[start_b:end_b]
        segments[row, middle + 1 : end + 1] = 1
    return ids, segments, lengths
