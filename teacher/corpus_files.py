"""Which files of a corpus are text, which hold rows of json, and which are neither."""

import itertools
import json
from pathlib import Path

from common.errors import UserError
from teacher.decoding import DOCUMENTATION, Oddities, stream_lines

_ROWS = (".jsonl", ".ndjson", ".json")
_FILES = (".txt", ".md", *_ROWS, ".gz")
_NO_TEXT = {
    **dict.fromkeys((".csv", ".tsv"), "a table"),
    **dict.fromkeys((".html", ".htm", ".xml"), "a page with tags"),
}
"""Files whose lines would be taken for sentences, and are none."""
_LOOKED_AT = 3
"""Lines of a text file that say whether it is rows of json."""
_INSTEAD = 'a jsonl file, an object like {"text": ...} on each line, or a text file with blank lines between documents'


def corpus_files(path: Path) -> dict[str, Path]:
    """The files of a corpus that is a file or a folder, by their paths inside it, in order.

    Raises:
        UserError: a folder without text, or a file that is a table or a page.
    """
    if path.is_dir():
        return _text_files(path)
    if kind := _NO_TEXT.get(_suffix(path)):
        raise UserError(f"corpus {path} is {kind}, no text: write its texts to {_INSTEAD}, and give that")
    return {path.name: path}


def _text_files(folder: Path) -> dict[str, Path]:
    files = {
        file.relative_to(folder).as_posix(): file
        for file in sorted(folder.rglob("*"))
        if file.is_file()
        and file.suffix.lower() in _FILES
        and _suffix(file) not in _NO_TEXT
        and not DOCUMENTATION.match(file.name)
    }
    if not files:
        found = ", ".join(sorted(entry.name for entry in folder.iterdir())[:20]) or "nothing"
        raise UserError(f"corpus folder {folder} has no text: found {found}; expected {', '.join(_FILES)} files")
    return files


def _suffix(file: Path) -> str:
    """In small letters, that of what is packed in a .gz."""
    return _unpacked(file).suffix.lower()


def _unpacked(file: Path) -> Path:
    return file.with_suffix("") if file.suffix.lower() == ".gz" else file


def has_rows(file: Path) -> bool:
    """Whether each of its lines is an object of json, by its name."""
    return _suffix(file) in _ROWS


def refuse_objects(file: Path) -> None:
    """Raise UserError where a text file's first lines are objects of json."""
    lines = (line for line in stream_lines(file, Oddities()) if line.strip())
    first = list(itertools.islice(lines, _LOOKED_AT))
    if first and all(map(_is_object, first)):
        name = _unpacked(file).with_suffix(".jsonl").name + file.name.removeprefix(_unpacked(file).name)
        raise UserError(
            f"{file} is named as text, and its first lines are objects of json: name it {name}, so that their texts "
            "are read"
        )


def _is_object(line: str) -> bool:
    try:
        return line.lstrip().startswith("{") and isinstance(json.loads(line), dict)
    except ValueError:
        return False
