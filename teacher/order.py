"""Sentence-order pairs: two segments that follow each other in a document, swapped half the time."""

import random
from array import array
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from common.errors import UserError
from teacher.pairs import SHORT, SPECIALS, Pairs, truncate
from teacher.pieces import Pieces


def draw_order_pairs(pieces: Pieces, *, length: int, seed: int, passes: int = 1) -> Pairs:
    """Every document cut into pairs of at most `length` pieces with specials, `passes` times anew; label 1 = swapped.

    A pass of a document collects sentences, at least two, up to a target length: length - 3, or with probability 0.1
    uniform in 2..length - 3. They are cut after a random one of them, all but the last, and swapped by a coin. What is
    left of a document when one sentence remains has no order and is left out, other than in the released code, which
    gives it a random sentence of another document. Source: ALBERT (arXiv 1909.11942, section 3.1).

    Raises:
        UserError: no document has two sentences, or no room.
    """
    if length < SPECIALS + 2:
        raise UserError(f"--length {length}: a pair needs at least {SPECIALS + 2} pieces")
    room = length - SPECIALS
    flat = array("q")
    for number in range(passes):
        rng = random.Random(f"order {seed} {number}")
        for document in range(len(pieces)):
            target = rng.randint(2, room) if rng.random() < SHORT else room
            first, last = pieces.documents[document], pieces.documents[document + 1]
            for row in document_order_pairs(pieces.sentences[first : last + 1].tolist(), room, target, rng):
                flat.extend(row)
    if not flat:
        raise UserError(
            "--objective mlm+sop: sentence-order pairs need documents of at least two sentences, and the text (or the "
            "part of it that is held out) has none: give more text, or another --objective"
        )
    table = np.frombuffer(flat, dtype=np.int64).reshape(-1, 5)
    return Pairs(spans=table[:, :4].copy(), labels=table[:, 4].copy())


def document_order_pairs(
    starts: Sequence[int], room: int, target: int, rng: random.Random
) -> list[tuple[int, int, int, int, int]]:
    """The pairs of one pass of one document: (start A, end A, start B, end B, label).

    `starts` are where its sentences begin, then where the last one ends.
    """
    rows = []
    first, last = 0, len(starts) - 1
    while last - first >= 2:
        stop = bisect_left(starts, starts[first] + target, first + 2, last)
        cut = first + rng.randint(1, stop - first - 1)
        swapped = int(rng.random() < 0.5)
        a, b = (starts[first], starts[cut]), (starts[cut], starts[stop])
        rows.append((*(truncate(b, a, room, rng) if swapped else truncate(a, b, room, rng)), swapped))
        first = stop
    return rows
