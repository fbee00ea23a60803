"""Where documents begin and end in a text file.

A document ends
- at a heading, if the file has any: `= Title =` (a deeper `= = Part = =` only ends a paragraph), `# Title`, or a line
  such as "Chapter 4"; headings themselves are no text;
- else at two or more blank lines in a row, if the file has such;
- else at every blank line; and a file without blank lines is one document;
- and where it has grown to LONGEST_DOCUMENT, since a document is held in memory.
Blank lines inside a document end a paragraph. Lines of a paragraph are joined, unless most lines of the file end like
sentences: then each line stands for itself.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LONGEST_DOCUMENT = 1_000_000
"""Characters: about a long novel. What is longer is cut into several documents at a paragraph's or a line's end."""

_TITLE = re.compile(r"\s*= [^=].* =\s*|\s*#{1,2} \S.*")
_PART_TITLE = re.compile(r"\s*= =.*= =\s*|\s*#{3,6} \S.*")
_CHAPTER = re.compile(r"\s*(?i:chapter|book|part|volume|letter|act|scene)\s+(?:[ivxlcdmIVXLCDM]+|\d+)\b.{0,60}")
_CHAPTER_LETTERS = frozenset("cbpvlasCBPVLAS")
"""What a line that `_CHAPTER` matches begins with."""
_SENTENCE_END = re.compile(r"[.!?…。！？][)\]\"'”’»」』]*\s*$")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a text file is written."""

    ends_at: int
    """So many blank lines in a row end a document; 0: only titles do."""
    lines_stand_alone: bool


def layout_of(lines: Iterable[str]) -> Layout:
    """The layout of a file, from all of its lines."""
    titles = texts = sentences = blank = most_blank = 0
    for line in lines:
        kind = _kind(line)
        # Blank lines before the first text end nothing.
        blank = blank + 1 if kind == "blank" and texts else 0
        most_blank = max(most_blank, blank)
        titles += kind == "title"
        if kind == "text":
            texts += 1
            sentences += _SENTENCE_END.search(line, max(0, len(line) - 80)) is not None
    return Layout(ends_at=0 if titles else min(most_blank, 2), lines_stand_alone=2 * sentences > texts)


def text_documents(lines: Iterable[str], layout: Layout) -> Iterator[str]:
    """Documents of a file with text in them: paragraphs, or lines that stand for themselves, joined by line ends."""
    paragraphs: list[str] = []
    size = 0
    for paragraph in _paragraphs(lines, layout):
        if paragraphs and (paragraph is None or size + len(paragraph) > LONGEST_DOCUMENT):
            yield "\n".join(paragraphs)
            paragraphs, size = [], 0
        if paragraph is not None:
            paragraphs.append(paragraph)
            size += len(paragraph)
    if paragraphs:
        yield "\n".join(paragraphs)


def _kind(line: str) -> str:
    """ "blank", "title" (ends a document), "part" (ends a paragraph) or "text"."""
    start = line.lstrip()[:1]
    if not start:
        return "blank"
    if start in "=#":
        return "part" if _PART_TITLE.fullmatch(line) else "title" if _TITLE.fullmatch(line) else "text"
    return "title" if start in _CHAPTER_LETTERS and len(line) < 80 and _CHAPTER.fullmatch(line) else "text"


def _paragraphs(lines: Iterable[str], layout: Layout) -> Iterator[str | None]:
    """Paragraphs, and None between two documents."""
    gathered: list[str] = []
    size = blank = 0
    for line in lines:
        kind = _kind(line)
        blank = blank + 1 if kind == "blank" else 0
        if kind == "text":
            gathered.append(line)
            size += len(line)
        if gathered and (kind != "text" or layout.lines_stand_alone or size > LONGEST_DOCUMENT):
            yield " ".join(gathered)
            gathered, size = [], 0
        if kind == "title" or (blank and blank == layout.ends_at):
            yield None
    if gathered:
        yield " ".join(gathered)
