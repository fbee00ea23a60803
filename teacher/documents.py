"""Where documents begin and end in a text file.

A document ends
- at a heading: a line such as "Chapter 4" or "PART II The Sea"; and, if the file has several of them, or one at its
  beginning or after a blank line, `= Title =` (a deeper `= = Part = =` only ends a paragraph) or `# Title`. Headings
  themselves are no text;
- unless there are several headings, or one before all text: at two or more blank lines in a row, if the file has such,
  else at every blank line;
- and where it has grown to LONGEST_DOCUMENT, since a document is held in memory.
Blank lines inside a document end a paragraph. Lines of a paragraph are joined, unless most lines of the file end like
sentences: then each line stands for itself.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LONGEST_DOCUMENT = 1_000_000
"""Characters: about a long novel. What is longer is cut into several documents at a paragraph's or a line's end."""

_TITLE = re.compile(r"\s*= [^=].* =\s*|\s*#{1,2} \S.*")
_PART_TITLE = re.compile(r"\s*= =.*= =\s*|\s*#{3,6} \S.*")
_WORDS = ("Chapter", "Book", "Part", "Volume", "Letter", "Act", "Scene")
_CHAPTER = re.compile(
    rf"\s*(?:{'|'.join((*_WORDS, *map(str.upper, _WORDS)))})\s+"
    # What follows the number tells "Part I The Sea" from "Part I did not like", and small letters from a word.
    r"(?:[ivxl]+\s*|(?:[IVXLCDM]+|\d+)(?:\s*|[.:)\]]+(?:[\s—–-].{0,60})?|[\s,;—–-]+(?![a-z\d\s,;—–-]).{0,60}))"
)
_CHAPTER_LETTERS = frozenset("CBPVLAS")
"""What a line that `_CHAPTER` matches begins with."""
_MARKED = ("title", "part")
"""Kinds of lines that begin with the mark of a heading."""
_SENTENCE_END = re.compile(r"[.!?…。！？][)\]\"'”’»」』]*\s*$")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a text file is written."""

    ends_at: int
    """So many blank lines in a row end a document; 0: only titles do."""
    lines_stand_alone: bool
    marks: bool
    """Lines with the marks of headings, = and #, are headings."""


def layout_of(lines: Iterable[str]) -> Layout:
    """The layout of a file, from all of its lines."""
    kinds: Counter[str] = Counter()
    sentences = blank = most_blank = 0
    opened = marked = False
    before = "blank"
    for line in lines:
        kind = _kind(line)
        opened |= kind in ("chapter", "title") and not kinds["text"]
        marked |= kind in _MARKED and before == "blank"
        before = kind
        kinds[kind] += 1
        # Blank lines before the first text end nothing.
        blank = blank + 1 if kind == "blank" and kinds["text"] else 0
        most_blank = max(most_blank, blank)
        sentences += kind == "text" and _SENTENCE_END.search(line, max(0, len(line) - 80)) is not None
    marks = marked or sum(kinds[kind] for kind in _MARKED) > 1
    titles = kinds["chapter"] + (kinds["title"] if marks else 0)
    return Layout(
        ends_at=0 if opened or titles > 1 else min(most_blank, 2),
        lines_stand_alone=2 * sentences > kinds["text"],
        marks=marks,
    )


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


def _kind(line: str, marks: bool = True) -> str:
    """ "blank", "chapter" or "title" (end a document), "part" (ends a paragraph) or "text"; without `marks` no line is
    a title or a part.
    """
    start = line.lstrip()[:1]
    if not start:
        return "blank"
    if start in "=#":
        marked = "part" if _PART_TITLE.fullmatch(line) else "title" if _TITLE.fullmatch(line) else "text"
        return marked if marks else "text"
    return "chapter" if start in _CHAPTER_LETTERS and len(line) < 80 and _CHAPTER.fullmatch(line) else "text"


def _paragraphs(lines: Iterable[str], layout: Layout) -> Iterator[str | None]:
    """Paragraphs, and None between two documents."""
    gathered: list[str] = []
    size = blank = 0
    for line in lines:
        kind = _kind(line, layout.marks)
        blank = blank + 1 if kind == "blank" else 0
        if kind == "text":
            gathered.append(line)
            size += len(line)
        if gathered and (kind != "text" or layout.lines_stand_alone or size > LONGEST_DOCUMENT):
            yield " ".join(gathered)
            gathered, size = [], 0
        if kind in ("chapter", "title") or (blank and blank == layout.ends_at):
            yield None
    if gathered:
        yield " ".join(gathered)
