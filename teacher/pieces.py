"""A corpus as pieces of a vocabulary: flat arrays, from which examples are spans.

Imports neither torch nor transformers, so that processes which only tokenise start in a moment.
"""

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from tokenizers import Tokenizer

from teacher.arrays import GrowingArray, map_array
from teacher.encoder import TextEncoder

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Item = TypeVar("Item", bound=Sequence[Any])

GROUP = 4096
"""Sentences that are tokenised at a time."""

BLOCK = 2**22
"""Pieces that are looked at in one go where all of them are."""


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """Documents of sentences of pieces. No sentence and no document is empty.

    The arrays may be memory maps: slices and single elements read little, an operation on all of one reads all of it.
    """

    ids: np.ndarray
    """All pieces one after another, without specials; uint16 where the vocabulary allows, else int32."""
    sentences: np.ndarray
    """int64 (sentences + 1): where each sentence starts in `ids`, then the end."""
    documents: np.ndarray
    """int64 (documents + 1): where each document starts in `sentences`, then the end."""

    def __len__(self) -> int:
        """Documents."""
        return len(self.documents) - 1

    def counts(self, vocabulary: int = 0) -> np.ndarray:
        """How often each piece occurs, int64, for `vocabulary` pieces or up to the largest id; a block at a time."""
        total = np.zeros(vocabulary, np.int64)
        for start in range(0, len(self.ids), BLOCK):
            found = np.bincount(self.ids[start : start + BLOCK], minlength=len(total))
            found[: len(total)] += total
            total = found
        return total

    def chosen(self, mask: np.ndarray) -> "Pieces":
        """The documents where `mask` (documents,) is True, in their order."""
        if mask.all():
            return self
        counts, lengths = np.diff(self.documents), np.diff(self.sentences)
        kept = np.repeat(mask, counts)
        return Pieces(
            ids=self.ids[np.repeat(kept, lengths)], sentences=_starts(lengths[kept]), documents=_starts(counts[mask])
        )

    def save(self, folder: Path) -> None:
        """As three .npy files of a new folder."""
        with PiecesWriter(folder, self.ids.dtype) as writer:
            writer.append(self)

    @classmethod
    def load(cls, folder: Path) -> "Pieces":
        """From memory maps. Raises UserError for files that are damaged or missing."""
        return cls(**{name: map_array(folder / f"{name}.npy") for name in ("ids", "sentences", "documents")})


class PiecesWriter(contextlib.AbstractContextManager["PiecesWriter"]):
    """A folder of `Pieces` in the making: `with PiecesWriter(folder, np.uint16) as writer: writer.append(some)`."""

    def __init__(self, folder: Path, kind: np.dtype | type[np.generic]) -> None:
        folder.mkdir(parents=True)
        self._open = contextlib.ExitStack()
        self._ids, self._sentences, self._documents = (
            self._open.enter_context(GrowingArray(folder / f"{name}.npy", of))
            for name, of in (("ids", kind), ("sentences", np.int64), ("documents", np.int64))
        )
        for starts in (self._sentences, self._documents):
            starts.append(np.zeros(1, np.int64))

    def append(self, pieces: Pieces) -> None:
        """Documents to come after those that are there."""
        self._documents.append(pieces.documents[1:] + (self._sentences.count - 1))
        self._sentences.append(pieces.sentences[1:] + self._ids.count)
        self._ids.append(pieces.ids)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)


def encode_documents(
    documents: Iterable[Sequence[str]], tokenizer: "TextEncoder | Tokenizer | PreTrainedTokenizerFast"
) -> Pieces:
    """Tokenise `documents`, lists of sentences, in their order.

    Where a, b and c are pieces 5, 6 and 7, [["a b", "", "c"], [""], ["b"]] gives ids 5 6 7 6, sentences 0 2 3 4 and
    documents 0 2 3.
    """
    encoder = tokenizer if isinstance(tokenizer, TextEncoder) else TextEncoder(tokenizer)
    flat = [np.zeros(0, encoder.kind)]
    lengths: list[int] = []
    counts: list[int] = []
    for group in grouped(documents, GROUP):
        encoded = encoder.encode([sentence for document in group for sentence in document])
        flat.append(np.fromiter(itertools.chain.from_iterable(encoded), encoder.kind))
        remaining = iter(encoded)
        for document in group:
            filled = [len(ids) for ids in itertools.islice(remaining, len(document)) if ids]
            lengths += filled
            counts += [len(filled)] if filled else []
    return Pieces(ids=np.concatenate(flat), sentences=_starts(lengths), documents=_starts(counts))


def grouped(items: Iterable[Item], most: int) -> Iterator[list[Item]]:
    """Items one after another together, until their lengths sum to `most` or more.

    >>> list(grouped(["ab", "c", "d", "efg", "h"], 3))
    [['ab', 'c'], ['d', 'efg'], ['h']]
    """
    group: list[Item] = []
    size = 0
    for item in items:
        group.append(item)
        size += len(item)
        if size >= most:
            yield group
            group, size = [], 0
    if group:
        yield group


def _starts(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, dtype=np.int64))]).astype(np.int64)
