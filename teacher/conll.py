"""Words and tags in columns, one word a line, an empty line between sentences (CoNLL)."""

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from common.errors import UserError
from common.words import counted
from teacher.columns import Asked
from teacher.decoding import UNREADABLE, Oddities, clean, open_start, read_text, suffix_of
from teacher.raw import RawTask
from teacher.schemes import OUTSIDE, is_tag
from teacher.tagged import Sentence, tagged_task

EXTENSIONS = (".conll", ".iob", ".iob2", ".bio", ".bioes", ".bmes")
_DOCUMENT = "-DOCSTART-"
_LOOKED_AT = 2000
_LONGEST_SENTENCE = 100


def matches(file: Path) -> bool:
    """Whether a file's name says so, or its first lines are words in columns of which the last holds tags."""
    if suffix_of(file) in EXTENSIONS:
        return True
    if suffix_of(file) in (".json", ".jsonl", ".ndjson"):
        return False
    try:
        with open_start(file) as stream:
            lines = [line.strip() for line, _ in zip(stream, range(_LOOKED_AT), strict=False)]
    except UNREADABLE:
        return False
    if all(lines[:-1]):
        return False
    rows = [fields for line in lines if (fields := line.split()) and fields[0] != _DOCUMENT]
    usual = Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
    last = [fields[-1] for fields in rows]
    entities = usual >= 2 and all(map(is_tag, last)) and any(tag != OUTSIDE for tag in last)
    return entities or _are_words(lines)


def _are_words(lines: list[str]) -> bool:
    """Whether tabs part words from other tags, as parts of speech are: few different ones, in blocks like sentences."""
    blocks = [list(block) for filled, block in itertools.groupby(lines, bool) if filled]
    rows = [line.split("\t") for block in blocks for line in block]
    words = [text for row in rows for text in (row[0], row[-1])]
    return (
        2 * len(blocks) <= len(rows) <= _LONGEST_SENTENCE * len(blocks)
        and len({len(row) for row in rows}) == 1
        and len(rows[0]) > 1
        and all(len(text.split()) == 1 for text in words)
        and len({row[-1] for row in rows}) * 5 <= len(rows)
    )


def load(name: str, files: Mapping[str, Path], asked: Asked) -> RawTask:
    """The sentences of each part; the first column is the word and the last the tag, if nothing else is named.

    Columns are named by number, from 1 (--text-column, --label-column).

    Raises:
        UserError: a line with another number of columns, or a column that is not there; names file and line.
    """
    if asked.pair is not None:
        raise UserError("--pair-column: words with tags have no second text; leave it out")
    oddities = Oddities()
    parts, sources = {}, {}
    for part, file in files.items():
        text, raw = read_text(file, oddities)
        sources[file.name] = hashlib.sha256(raw).hexdigest()
        parts[part] = _sentences(file, text, asked, oddities)
    return tagged_task(name, parts, {part: file.name for part, file in files.items()}, sources, oddities.notes())


def _sentences(file: Path, text: str, asked: Asked, oddities: Oddities) -> list[Sentence]:
    found: list[Sentence] = []
    words: list[str] = []
    tags: list[str] = []
    columns, start = _usual_columns(text), 1
    for number, line in enumerate([*text.split("\n"), ""], 1):
        fields = _fields(line)
        if fields == [""] or fields[0] == _DOCUMENT or (line.startswith("#") and len(fields) != columns):
            if words:
                found.append(Sentence.of(words, tags, file.name, start))
            words, tags, start = [], [], number + 1
            continue
        if len(fields) != columns or columns < 2:
            raise UserError(
                f"{file}:{number} has {counted(len(fields), 'column')} where {max(columns, 2)} were expected: a word, "
                "its tag as the last column, and nothing but an empty line between sentences"
            )
        # A word of signs that nobody sees is still a word, and has a tag.
        words.append(clean(fields[_place(file, asked.text, 1, columns)], f"{file}:{number}", oddities) or "\ufffd")
        tag = fields[_place(file, asked.label, columns, columns)].strip()
        if len(tag.split()) != 1:
            raise UserError(f"{file}:{number}: a tag without spaces was expected, found {tag!r}")
        tags.append(tag)
    return found


def _fields(line: str) -> list[str]:
    return re.split(r"\t" if "\t" in line else r"\s+", line.strip())


def _usual_columns(text: str) -> int:
    """As many as most lines have, so that a first line with "#" is known for a word or for a remark as others are."""
    sizes = Counter(len(_fields(line)) for line in itertools.islice(text.split("\n"), _LOOKED_AT) if line.strip())
    return sizes.most_common(1)[0][0] if sizes else 0


def _place(file: Path, asked: str | None, usual: int, columns: int) -> int:
    """Index of a column that is named by its number, from 1."""
    if asked is None:
        return usual - 1
    if not asked.isdecimal() or not 1 <= int(asked) <= columns:
        raise UserError(f"{file}: there is no column {asked!r}: columns of words are numbered, 1 to {columns}")
    return int(asked) - 1
