"""Single segments for objectives without pairs: full sentences packed up to a length, within a document."""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common.errors import UserError
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


def pack_segments(pieces: Pieces, *, length: int, seed: int = 0, passes: int = 1) -> Segments:
    """Every document cut into segments of at most `length` pieces with specials: RoBERTa's DOC-SENTENCES.

    A segment takes sentence after sentence of a document while they fit; the next one goes on where it ends, and none
    crosses the end of a document, so the last of a document may be short. A sentence longer than the room is cut. There
    is nothing to draw: `seed` changes nothing, and every pass has the same segments. Source: RoBERTa (arXiv
    1907.11692, section 4.2).

    >>> pieces = Pieces(ids=np.arange(20), sentences=np.array([0, 3, 5, 8, 9, 20]), documents=np.array([0, 3, 5]))
    >>> pack_segments(pieces, length=8).spans.tolist()
    [[0, 5], [5, 8], [8, 9], [9, 15], [15, 20]]

    Raises:
        UserError: no room.
    """
    if length < SPECIALS + 1:
        raise UserError(f"--length {length}: a segment needs at least {SPECIALS + 1} pieces")
    flat = array("q")
    for document in range(len(pieces)):
        first, last = pieces.documents[document], pieces.documents[document + 1]
        flat.extend(_packed(pieces.sentences[first : last + 1].tolist(), length - SPECIALS))
    return Segments(spans=np.tile(np.frombuffer(flat, dtype=np.int64).reshape(-1, 2), (passes, 1)))


def _packed(starts: Sequence[int], room: int) -> list[int]:
    """Start, end, start, end ... of a document's segments; `starts` of its sentences, then the end of the last."""
    flat: list[int] = []
    begin, place = starts[0], 0
    while begin < starts[-1]:
        place = bisect_right(starts, begin + room, place) - 1
        end = starts[place] if starts[place] > begin else begin + room
        flat += [begin, end]
        begin = end
    return flat


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
