"""Text for pretraining: documents of sentences from pydocs, files, folders or the hub, streamed.

Where a document ends in a text file is said in `teacher.documents`; of jsonl files, which may be called .json as C4's
are, and of the hub a row is a document.
Sentences are cut as `teacher.sentences` says.
"""

import difflib
import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.progress import say
from teacher import hub, pydocs
from teacher.corpus_files import corpus_files, has_rows, refuse_objects
from teacher.decoding import Oddities, explain_reading, stream_lines
from teacher.documents import Layout, layout_of, text_documents
from teacher.local import nearest_files
from teacher.sentences import CUTS
from teacher.text_rows import json_rows, row_texts


class Corpus:
    """Documents as lists of sentences. May be read again and again; nothing but the current document is in memory.

    `sources` maps what it reads to a checksum or version; `notes()` says, after a reading, what had to be repaired.
    `cut` names the function of `teacher.sentences.CUTS` that makes sentences of a document's text.
    """

    def __init__(
        self, name: str, sources: dict[str, str], read: Callable[[Oddities], Iterator[str]], cut: str = "lines"
    ) -> None:
        self.name, self.sources, self.cut, self._read = name, sources, cut, read
        self._oddities = Oddities()

    def texts(self) -> Iterator[str]:
        """Documents as they stand, before sentences are cut."""
        self._oddities = Oddities()
        return self._read(self._oddities)

    def __iter__(self) -> Iterator[list[str]]:
        return (document for document in map(CUTS[self.cut], self.texts()) if document)

    def notes(self) -> list[str]:
        return self._oddities.notes()

    def fingerprint(self) -> str:
        """sha256 over the sources, first 16 hex digits."""
        return hashlib.sha256(repr(sorted(self.sources.items())).encode()).hexdigest()[:16]


def load_corpus(source: str, *, text_column: str | None = None) -> Corpus:
    """The corpus "pydocs", "hub:ID" (or "hub:ID/config"), a text or jsonl file, or a folder of such, also as .gz.

    Args:
        source: as above.
        text_column: of jsonl files and the hub; None: text, or another usual name.

    Raises:
        UserError: nothing there or nothing usable, such as a table or a page; a fault in a file is raised when it is
        reached.
    """
    if source == "pydocs":
        _refuse_column(text_column, source)
        packages = pydocs.corpus_packages()
        versions = {package.name: package.version for package in packages}
        return Corpus("pydocs", versions, lambda _: pydocs.corpus_docstrings(packages=packages), "docstring")
    if source.startswith(hub.PREFIX):
        return _hub_corpus(source.removeprefix(hub.PREFIX), text_column)
    path = Path(source).expanduser()
    if not path.exists():
        meant = " Did you mean 'pydocs'?" if difflib.get_close_matches(source, ["pydocs"]) else ""
        raise UserError(
            f"corpus {source!r} does not exist.{meant}{nearest_files(path)} Give pydocs, a text or jsonl file, a "
            f"folder of such files, or {hub.PREFIX}ID"
        )
    files = corpus_files(path)
    if not any(has_rows(file) for file in files.values()):
        _refuse_column(text_column, source)
    checksums = {name: _checksum(file) for name, file in files.items()}
    # The column decides the text as the files do.
    columns = {} if text_column is None else {"--text-column": text_column}
    layouts: dict[Path, Layout] = {}
    return Corpus(
        path.resolve().stem,
        checksums | columns,
        lambda oddities: _from_files(files.values(), text_column, layouts, oddities),
    )


def _refuse_column(text_column: str | None, source: str) -> None:
    if text_column is not None:
        raise UserError(f"--text-column {text_column}: {source} has no columns, only jsonl files and the hub have")


def _checksum(file: Path) -> str:
    with explain_reading(file), file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _from_files(
    files: Iterable[Path], text_column: str | None, layouts: dict[Path, Layout], oddities: Oddities
) -> Iterator[str]:
    """Every document of every file; `layouts` keeps those of text files for the next reading.

    Raises:
        UserError: no file has text, or one that is named as text holds rows of json.
    """
    names, some = [], False
    for file in files:
        names.append(file.name)
        if has_rows(file):
            texts = row_texts(json_rows(file, oddities), text_column, oddities)
        else:
            if file not in layouts:
                refuse_objects(file)
                # This reading only looks; what it repairs would count twice.
                layouts[file] = layout_of(stream_lines(file, Oddities()))
            texts = text_documents(stream_lines(file, oddities), layouts[file])
        for text in texts:
            some = True
            yield text
    if not some:
        raise UserError(f"no text in {', '.join(names[:5])}: the corpus is empty")


def _hub_corpus(identifier: str, text_column: str | None) -> Corpus:
    *front, last = identifier.split("/")
    where: tuple[str, str | None] = ("/".join(front), last) if len(front) == 2 else (identifier, None)
    try:
        revision = hub.dataset_revision(where[0])
        rows = hub.open_dataset(*where, split="train", streaming=True, revision=revision)
    except UserError as error:
        raise UserError(
            f"cannot load {hub.PREFIX}{identifier} from the hub ({error}). Without a network give a text file, "
            "a folder or pydocs with --corpus"
        ) from error
    if revision is None:
        say(
            f"note: the hub does not say which version of {where[0]} it has: what was made of an older one is taken "
            "for this one's"
        )
    version = revision or "hub"
    return Corpus(
        last,
        {identifier: version if text_column is None else f"{version} {text_column}"},
        lambda oddities: row_texts(_numbered(identifier, rows), text_column, oddities),
    )


def _numbered(identifier: str, rows: Iterable[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((f"{hub.PREFIX}{identifier}, row {number:,}", row) for number, row in enumerate(rows, 1))
