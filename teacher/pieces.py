"""A corpus as WordPiece ids: flat arrays, from which examples are spans."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerFast

from common.errors import UserError
from common.progress import Progress
from teacher.tokenizer import encode_sentences


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """Documents of sentences of pieces. No sentence and no document is empty."""

    ids: np.ndarray
    """All pieces one after another, without specials; uint16 where the vocabulary allows, else int32."""
    sentences: np.ndarray
    """int64 (sentences + 1): where each sentence starts in `ids`, then the end."""
    documents: np.ndarray
    """int64 (documents + 1): where each document starts in `sentences`, then the end."""

    def __len__(self) -> int:
        """Documents."""
        return len(self.documents) - 1

    def save(self, path: Path) -> None:
        np.savez(path, ids=self.ids, sentences=self.sentences, documents=self.documents)

    @classmethod
    def load(cls, path: Path) -> "Pieces":
        """Raises UserError for a file that is damaged."""
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return cls(ids=arrays["ids"], sentences=arrays["sentences"], documents=arrays["documents"])
        except Exception as error:  # numpy, zipfile and file errors have no common base
            raise UserError(f"{path} is damaged ({error}): delete its folder, it will be made again") from error


def encode_documents(
    documents: Sequence[Sequence[str]], tokenizer: PreTrainedTokenizerFast, *, enough: int | None = None
) -> Pieces:
    """Tokenise `documents` in their order, until `enough` pieces are there (None: all of them).

    Where a, b and c are pieces 5, 6 and 7, [["a b", "", "c"], [""], ["b"]] gives ids 5 6 7 6, sentences 0 2 3 4 and
    documents 0 2 3.
    """
    kind = np.uint16 if len(tokenizer) <= 2**16 else np.int32
    flat: list[np.ndarray] = []
    lengths: list[int] = []
    counts: list[int] = []
    total = 0
    with Progress("tokenise", total=len(documents), unit="document") as bar:
        for group in _groups(documents):
            sentences = encode_sentences(tokenizer, [sentence for document in group for sentence in document])
            kept = iter(sentences)
            for document in group:
                filled = [ids for ids in (next(kept) for _ in document) if ids]
                flat += [np.array(ids, dtype=kind) for ids in filled]
                lengths += [len(ids) for ids in filled]
                counts += [len(filled)] if filled else []
                total += sum(map(len, filled))
            bar.advance(len(group), note=f"{total:,} pieces")
            if enough is not None and total >= enough:
                break
    return Pieces(
        ids=np.concatenate(flat) if flat else np.zeros(0, kind), sentences=_starts(lengths), documents=_starts(counts)
    )


def _groups(documents: Sequence[Sequence[str]], size: int = 500) -> Iterator[Sequence[Sequence[str]]]:
    """Enough text at a time for all cores, little enough to stop soon after `enough`."""
    for start in range(0, len(documents), size):
        yield documents[start : start + size]


def _starts(lengths: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.array(lengths, dtype=np.int64))]).astype(np.int64)
