"""Single segments for objectives without pairs: full sentences packed up to a length, within a document."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.errors import UserError
from teacher.blocks import document_blocks, joined
from teacher.pieces import Pieces

SPECIALS = 2
"""[CLS] A [SEP]."""


@dataclass(frozen=True, kw_only=True)
class Segments:
    """Segments as spans of `Pieces.ids`."""

    spans: np.ndarray
    """int64 (n, 2): start and end."""

    def __len__(self) -> int:
        return len(self.spans)

    @property
    def lengths(self) -> np.ndarray:
        """(n,) pieces of each segment, specials included."""
        return self.spans[:, 1] - self.spans[:, 0] + SPECIALS


def pack_segments(
    pieces: Pieces, *, length: int, seed: int = 0, passes: int = 1, folder: Path | None = None
) -> Segments:
    """Every document cut into segments of at most `length` pieces with specials: RoBERTa's DOC-SENTENCES.

    A segment takes sentence after sentence of a document while they fit; the next one goes on where it ends, and none
    crosses the end of a document, so the last of a document may be short. A sentence longer than the room is cut. There
    is nothing to draw: `seed` changes nothing, and every pass has the same segments. Source: RoBERTa (arXiv
    1907.11692, section 4.2). With a `folder` the segments lie there, as the pairs of `teacher.pairs.draw_pairs` do.

    >>> pieces = Pieces(ids=np.arange(20), sentences=np.array([0, 3, 5, 8, 9, 20]), documents=np.array([0, 3, 5]))
    >>> pack_segments(pieces, length=8).spans.tolist()
    [[0, 5], [5, 8], [8, 9], [9, 15], [15, 20]]

    Raises:
        UserError: no room.
    """
    if length < SPECIALS + 1:
        raise UserError(f"--length {length}: a segment needs at least {SPECIALS + 1} pieces")
    blocks = (
        (_packed(pieces, documents, length - SPECIALS),) for _ in range(passes) for documents in document_blocks(pieces)
    )
    (spans,) = joined(blocks, ("spans",), folder)
    return Segments(spans=spans)


def _packed(pieces: Pieces, numbers: np.ndarray, room: int) -> np.ndarray:
    """Segments (n, 2) of the documents `numbers`, in the order of the text; in each round every document gives one."""
    starts, documents = np.asarray(pieces.sentences), np.asarray(pieces.documents)
    begin, last = starts[documents[numbers]], documents[numbers + 1]
    found = []
    while len(begin):
        fits = starts[np.minimum(last, np.searchsorted(starts, begin + room, side="right") - 1)]
        end = np.where(fits > begin, fits, begin + room)
        found.append(np.stack([begin, end], 1))
        going = end < starts[last]
        begin, last = end[going], last[going]
    spans = np.concatenate(found)
    return spans[np.argsort(spans[:, 0])]


def pad_segments(
    pieces: Pieces, segments: Segments, indices: Sequence[int] | np.ndarray, *, cls: int, sep: int, pad: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[CLS] A [SEP], padded to the longest: ids and segments, all 0, (batch, length) int64, lengths (batch,)."""
    spans = segments.spans[np.asarray(indices)]
    lengths = spans[:, 1] - spans[:, 0] + SPECIALS
    ids = np.full((len(spans), int(lengths.max())), pad, dtype=np.int64)
    ids[:, 0] = cls
    for row, (start, end) in enumerate(spans.tolist()):
        ids[row, 1 : end - start + 1] = pieces.ids[start:end]
        ids[row, end - start + 1] = sep
    return ids, np.zeros_like(ids), lengths
