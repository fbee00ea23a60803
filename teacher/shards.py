"""A corpus tokenised once: shards of pieces in a folder, made by several processes, kept when the work is cut off.

A shard is an .npz file with the arrays of `teacher.pieces.Pieces` for some documents one after another. Which documents
follows from the text alone, so an interrupted run goes on with the first shard that is not there.
"""

import contextlib
import itertools
import json
from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.errors import UserError
from common.files import write_json
from common.progress import Progress
from teacher.corpus import Corpus
from teacher.pieces import Pieces, PiecesWriter, grouped
from teacher.shard_pool import Encode, here, processes

SHARD = 2_000_000
"""Characters of text a shard: as much is held for each process at a time, and lost of its work when it is cut off."""

DONE = "shards.json"


@dataclass(frozen=True, kw_only=True)
class Shards:
    """A tokenised corpus on disk."""

    paths: tuple[Path, ...]
    notes: tuple[str, ...]
    """What had to be repaired in the text."""

    def lengths(self) -> np.ndarray:
        """Pieces of each document, int32: all that is held of a corpus, 4 bytes a document.

        Of the shards only where sentences and documents start is read: pieces are most of what they hold.
        """
        starts = (_read(path, "sentences", "documents") for path in self.paths)
        parts = [np.diff(sentences[documents]) for sentences, documents in starts]
        return np.concatenate([np.zeros(0, np.int32), *parts]).astype(np.int32)

    def gather(self, chosen: Mapping[Path, np.ndarray]) -> None:
        """Write a folder of `Pieces` for each mask (documents,) of documents, in their order."""
        with contextlib.ExitStack() as stack:
            kind = read_shard(self.paths[0]).ids.dtype
            writers = [(mask, stack.enter_context(PiecesWriter(folder, kind))) for folder, mask in chosen.items()]
            first = 0
            for shard in map(read_shard, self.paths):
                for mask, writer in writers:
                    part = mask[first : first + len(shard)]
                    if part.any():
                        writer.append(shard.chosen(part))
                first += len(shard)


def read_shard(path: Path) -> Pieces:
    """One shard, whole. Raises UserError where it is damaged or gone."""
    ids, sentences, documents = _read(path, "ids", "sentences", "documents")
    return Pieces(ids=ids, sentences=sentences, documents=documents)


def _read(path: Path, *names: str) -> list[np.ndarray]:
    """Some arrays of a shard. Raises UserError where it is damaged or gone."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return [arrays[name] for name in names]
    except Exception as error:  # numpy, zipfile and file errors have no common base
        raise UserError(
            f"{path} is damaged ({error}): delete its folder and give the same command again, it will be made anew"
        ) from error


def tokenise(corpus: Corpus, tokenizer_file: Path, folder: Path, *, workers: int, total: int | None = None) -> Shards:
    """The shards of `corpus` in `folder`, made where they are not there yet.

    Args:
        corpus: what to tokenise.
        tokenizer_file: tokenizer.json of the tokenizer.
        folder: for this text and this tokenizer alone.
        workers: processes that tokenise; this one reads the text.
        total: documents, where known, for the progress.
    """
    if not (folder / DONE).is_file():
        for rest in folder.glob(".*.npz.*.tmp"):
            rest.unlink()
        count = _make(corpus, tokenizer_file, folder, workers, total)
        write_json(folder / DONE, {"shards": count, "notes": corpus.notes()})
    found = json.loads((folder / DONE).read_text(encoding="utf-8"))
    return Shards(paths=tuple(_path(folder, number) for number in range(found["shards"])), notes=tuple(found["notes"]))


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:06}.npz"


def _make(corpus: Corpus, tokenizer_file: Path, folder: Path, workers: int, total: int | None) -> int:
    """Make the shards that are missing; how many there are in all."""
    batches = grouped(corpus.texts(), SHARD)
    start = list(itertools.islice(batches, 2))
    # Another process is not worth its start for a single shard.
    alone = workers == 1 or len(start) < 2
    encoder = here(tokenizer_file, corpus.cut) if alone else processes(tokenizer_file, corpus.cut, workers)
    with encoder as encode, Progress("tokenise", total=total, unit="document") as bar:
        return _encode_all(itertools.chain(start, batches), folder, encode, 1 if alone else workers, bar)


def _encode_all(batches: Iterable[list[str]], folder: Path, encode: Encode, threads: int, bar: Progress) -> int:
    """Each thread waits for one process, so that at most one batch more than processes is in memory."""
    pending: deque[tuple[int, Future[tuple[int, int]]]] = deque()
    count = pieces = 0

    def finish(most: int) -> None:
        nonlocal pieces
        while len(pending) > most:
            texts, future = pending.popleft()
            pieces += future.result()[1]
            bar.advance(texts, note=f"{pieces:,} pieces")

    with ThreadPoolExecutor(threads) as pool:
        for count, batch in enumerate(batches, 1):
            path = _path(folder, count - 1)
            if path.is_file():
                bar.advance(len(batch), note="from before")
                continue
            pending.append((len(batch), pool.submit(encode, batch, path)))
            finish(threads)
        finish(0)
    return count
