"""Sentence-order pairs: two segments that follow each other in a document, swapped half the time."""

from pathlib import Path

import numpy as np

from common.errors import UserError
from teacher.pairs import Pairs, collect_pairs, reached, truncate
from teacher.pieces import Pieces

_ORDER = 6
"""Keeps this stream of random numbers apart from that of next-sentence pairs and from others."""


def draw_order_pairs(pieces: Pieces, *, length: int, seed: int, passes: int = 1, folder: Path | None = None) -> Pairs:
    """Every document cut into pairs of at most `length` pieces with specials, `passes` times anew; label 1 = swapped.

    A pass of a document collects sentences, at least two, up to a target length: length - 3, or with probability 0.1
    uniform in 2..length - 3. They are cut after a random one of them, all but the last, and swapped by a coin. What is
    left of a document when one sentence remains has no order and is left out, other than in the released code, which
    gives it a random sentence of another document. Source: ALBERT (arXiv 1909.11942, section 3.1). With a `folder` the
    pairs lie there, as those of `teacher.pairs.draw_pairs` do.

    Raises:
        UserError: no document has two sentences, or no room.
    """
    pairs = collect_pairs(
        document_order_pairs, pieces, length=length, seed=seed, passes=passes, stream=_ORDER, folder=folder
    )
    if not len(pairs):
        raise UserError(
            "--objective mlm+sop: sentence-order pairs need documents of at least two sentences, and the text (or the "
            "part of it that is held out) has none: give more text, or another --objective"
        )
    return pairs


def document_order_pairs(
    pieces: Pieces, numbers: np.ndarray, room: int, targets: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of one pass of the documents `numbers`, each with a target (documents,): spans (n, 4), labels (n,).

    In each round every document that has two sentences left gives one pair. A round draws two uniform numbers for each
    of them (where it is cut, whether it is swapped); the coins of `truncate` come last.
    """
    starts, documents = np.asarray(pieces.sentences), np.asarray(pieces.documents)
    first, last = documents[numbers], documents[numbers + 1]
    spans, labels = [np.zeros((0, 4), np.int64)], [np.zeros(0, np.int64)]
    while (going := last - first >= 2).any():
        first, last, targets = first[going], last[going], targets[going]
        draws = rng.random((2, len(first)))
        stop = np.maximum(first + 2, reached(starts, first, targets, last))
        cut = first + 1 + (draws[0] * (stop - first - 1)).astype(np.int64)
        a, b = np.stack([first, cut], 1), np.stack([cut, stop], 1)
        swapped = draws[1] < 0.5
        sentences = np.where(swapped[:, None], np.concatenate([b, a], 1), np.concatenate([a, b], 1))
        spans.append(starts[sentences])
        labels.append(swapped.astype(np.int64))
        first = stop
    return truncate(np.concatenate(spans), room, rng), np.concatenate(labels)
