"""Text for pretraining: documents of sentences from pydocs, files, folders or the hub, streamed.

Where a document ends in a text file:
- at a heading, if the file has any: `= Title =` (a deeper `= = Part = =` only ends a paragraph), `# Title`, or a line
  such as "Chapter 4"; headings themselves are no text;
- else at two or more blank lines in a row, if the file has such;
- else at every blank line; and a file without blank lines is one document.
Blank lines inside a document end a paragraph. Lines of a paragraph are joined, unless most lines of the file end like
sentences: then each line stands for itself. Sentences are cut as `teacher.sentences` says.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import UserError
from teacher import hub, pydocs
from teacher.columns import TEXT_NAMES
from teacher.decoding import DOCUMENTATION, Oddities, stream_lines
from teacher.local import nearest_files
from teacher.sentences import split_sentences

_TITLE = re.compile(r"\s*= [^=].* =\s*|\s*#{1,2} \S.*")
_PART_TITLE = re.compile(r"\s*= =.*= =\s*|\s*#{3,6} \S.*")
_CHAPTER = re.compile(r"\s*(?i:chapter|book|part|volume|letter|act|scene)\s+(?:[ivxlcdmIVXLCDM]+|\d+)\b.{0,60}")
_SENTENCE_END = re.compile(r"[.!?…。！？][)\]\"'”’»」』]*\s*$")
_HUB_TEXTS = ("text", "content", "document", "article", "body", *TEXT_NAMES)
HUB_PREFIX = "hub:"


class Corpus:
    """Documents as lists of sentences. May be read again and again; nothing but the current document is in memory.

    `sources` maps what it reads to a checksum or version; `notes()` says, after a reading, what had to be repaired.
    """

    def __init__(self, name: str, sources: dict[str, str], read: Callable[[Oddities], Iterator[list[str]]]) -> None:
        self.name, self.sources, self._read = name, sources, read
        self._oddities = Oddities()

    def __iter__(self) -> Iterator[list[str]]:
        self._oddities = Oddities()
        return (document for document in self._read(self._oddities) if document)

    def notes(self) -> list[str]:
        return self._oddities.notes()

    def fingerprint(self) -> str:
        """sha256 over the sources, first 16 hex digits."""
        return hashlib.sha256(repr(sorted(self.sources.items())).encode()).hexdigest()[:16]


def load_corpus(source: str) -> Corpus:
    """The corpus "pydocs", "hub:ID" (or "hub:ID/config"), a text file, or a folder of .txt, .md and .gz files.

    Raises:
        UserError: nothing there or nothing usable; a fault in a file is raised when it is reached.
    """
    if source == "pydocs":
        packages = pydocs.corpus_packages()
        versions = {package.name: package.version for package in packages}
        return Corpus("pydocs", versions, lambda _: pydocs.documents(packages=packages))
    if source.startswith(HUB_PREFIX):
        return _hub_corpus(source.removeprefix(HUB_PREFIX))
    path = Path(source).expanduser()
    if not path.exists():
        raise UserError(
            f"corpus {source!r} does not exist.{nearest_files(path)} Give pydocs, a text file, a folder of text files, "
            f"or {HUB_PREFIX}ID"
        )
    files = _text_files(path) if path.is_dir() else [path]
    checksums = {file.name: _checksum(file) for file in files}
    return Corpus(path.resolve().stem, checksums, lambda oddities: _from_files(files, oddities))


def _text_files(folder: Path) -> list[Path]:
    files = [
        file
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.suffix.lower() in (".txt", ".gz", ".md") and not DOCUMENTATION.match(file.name)
    ]
    if not files:
        found = ", ".join(sorted(entry.name for entry in folder.iterdir())[:20]) or "nothing"
        raise UserError(f"corpus folder {folder} has no text: found {found}; expected .txt, .md or .gz files")
    return files


def _checksum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _from_files(files: Iterable[Path], oddities: Oddities) -> Iterator[list[str]]:
    """Every document of every file.

    Raises:
        UserError: no file has a sentence.
    """
    names, some = [], False
    for file in files:
        names.append(file.name)
        # The first reading only looks at the layout; what it repairs would count twice.
        for document in text_documents(stream_lines(file, Oddities()), stream_lines(file, oddities)):
            some = some or bool(document)
            yield document
    if not some:
        raise UserError(f"no text in {', '.join(names[:5])}: the corpus is empty")


def text_documents(preview: Iterable[str], lines: Iterable[str]) -> Iterator[list[str]]:
    """Documents of one text by the rules above; `preview` is the same lines, to see their layout first."""
    layout = _layout(preview)
    sentences: list[str] = []
    for paragraph in _paragraphs(lines, layout):
        if paragraph is None:
            if sentences:
                yield sentences
            sentences = []
        else:
            sentences += split_sentences(paragraph)
    if sentences:
        yield sentences


def _kind(line: str) -> str:
    """ "blank", "title" (ends a document), "part" (ends a paragraph) or "text"."""
    if not line.strip():
        return "blank"
    if line.lstrip()[0] in "=#":
        return "part" if _PART_TITLE.fullmatch(line) else "title" if _TITLE.fullmatch(line) else "text"
    return "title" if len(line) < 80 and _CHAPTER.fullmatch(line) else "text"


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """How a text file is written."""

    ends_at: int
    """So many blank lines in a row end a document; 0: only titles do."""
    lines_stand_alone: bool


def _layout(lines: Iterable[str]) -> _Layout:
    counts: Counter[str] = Counter()
    blank = most_blank = 0
    for line in lines:
        kind = _kind(line)
        counts[kind] += 1
        counts["sentence"] += kind == "text" and bool(_SENTENCE_END.search(line))
        # Blank lines before the first text end nothing.
        blank = blank + 1 if kind == "blank" and counts["text"] else 0
        most_blank = max(most_blank, blank)
    ends_at = 0 if counts["title"] else min(most_blank, 2)
    return _Layout(ends_at=ends_at, lines_stand_alone=2 * counts["sentence"] > counts["text"])


def _paragraphs(lines: Iterable[str], layout: _Layout) -> Iterator[str | None]:
    """Paragraphs, and None between two documents."""
    gathered: list[str] = []
    blank = 0
    for line in lines:
        kind = _kind(line)
        blank = blank + 1 if kind == "blank" else 0
        if kind == "text":
            gathered.append(line)
        if gathered and (kind != "text" or layout.lines_stand_alone):
            yield " ".join(gathered)
            gathered = []
        if kind == "title" or (blank and blank == layout.ends_at):
            yield None
    if gathered:
        yield " ".join(gathered)


def _hub_corpus(identifier: str) -> Corpus:
    *front, last = identifier.split("/")
    where: tuple[str, str | None] = ("/".join(front), last) if len(front) == 2 else (identifier, None)
    try:
        rows = hub.open_dataset(*where, split="train", streaming=True)
    except UserError as error:
        raise UserError(
            f"cannot load {HUB_PREFIX}{identifier} from the hub ({error}). Without a network give a text file, "
            "a folder or pydocs with --corpus"
        ) from error
    return Corpus(last, {identifier: str(getattr(rows, "_fingerprint", "hub"))}, lambda _: _from_rows(identifier, rows))


def _from_rows(identifier: str, rows: Iterable[dict[str, Any]]) -> Iterator[list[str]]:
    """A row of the hub is a document; its lines end sentences."""
    for row in rows:
        name = next((name for name in _HUB_TEXTS if isinstance(row.get(name), str)), None)
        if name is None:
            raise UserError(f"{HUB_PREFIX}{identifier} has no text column: found {', '.join(row)}")
        yield [sentence for line in row[name].split("\n") for sentence in split_sentences(line)]
