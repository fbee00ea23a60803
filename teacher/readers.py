"""Files to tables: tsv, csv, jsonl and json, with exact line numbers."""

import csv
import hashlib
import io
import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.words import counted
from teacher.decoding import UNREADABLE, Oddities, open_start, read_text, suffix_of

EXTENSIONS = (".tsv", ".csv", ".jsonl", ".ndjson", ".json", ".txt")
_OBJECT = 'an object like {"text": ..., "label": ...} was expected on each line'
_KINDS = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
_FULLY_QUOTED = re.compile(r'"(?:[^"]|"")*"')


@dataclass(kw_only=True)
class Table:
    """Records of one file, not looked at yet."""

    path: Path
    sha256: str
    records: list[list[str]]
    lines: list[int]
    """The line on which each record starts, from 1."""
    columns: list[str] | None = None
    """Names where the format itself gives them (json); None: the first record may be a header."""
    nested: dict[str, int] = field(default_factory=dict)
    """Column to its first record with a list or an object, which is neither text nor label."""

    def where(self, index: int) -> str:
        return f"{self.path}:{self.lines[index]}"


def read_table(path: Path, oddities: Oddities) -> Table:
    """Read one file; the format follows from its extension, or from its first line where that says nothing.

    Raises:
        UserError: empty, not one of the formats, or a record with too many or too few fields; names file and line.
    """
    text, raw = read_text(path, oddities)
    checksum = hashlib.sha256(raw).hexdigest()
    suffix = suffix_of(path)
    if suffix in (".jsonl", ".ndjson", ".json") or (suffix not in (".tsv", ".csv") and text.lstrip()[:1] == "{"):
        return _read_json(path, text, checksum)
    first = next(line for line in text.split("\n") if line.strip())
    if suffix == ".tsv" or (suffix != ".csv" and "\t" in first):
        records, lines = _read_tabs(path, text)
    elif suffix == ".csv" or "," in first:
        records, lines = _read_quoted(path, text, csv_delimiter(first))
    else:
        raise UserError(
            f"{path}:1 has neither tabs nor commas nor json: one text and one label a row were expected, "
            f"as {', '.join(EXTENSIONS[:-1])}"
        )
    return Table(path=path, sha256=checksum, records=records, lines=lines)


def first_object(file: Path) -> dict[str, Any] | None:
    """The first line of a json-lines file; None where it is no object, or the file another one."""
    if suffix_of(file) not in (".json", ".jsonl", ".ndjson"):
        return None
    try:
        with open_start(file) as stream:
            first = json.loads(next(line for line in stream if line.strip()))
    except (*UNREADABLE, ValueError, StopIteration, RecursionError):
        return None
    return first if isinstance(first, dict) else None


def csv_delimiter(first: str) -> str:
    """The likeliest of comma, semicolon and tab, by the first line outside quotes."""
    outside = re.sub(r'"(?:[^"]|"")*"', "", first)
    return max(",;\t", key=outside.count)


def _read_tabs(path: Path, text: str) -> tuple[list[list[str]], list[int]]:
    """Tab-separated text has no quoting (MRPC holds stray quotes).

    Unless every field with a quote is wholly quoted, or only a reading with quotes gives all rows as many fields.
    """
    numbered = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    records, lines = [line.split("\t") for _, line in numbered], [number for number, _ in numbered]
    if tabs_are_quoted(text):
        return _parse_csv(path, text, "\t")
    _refuse_ragged(path, records, lines)
    return records, lines


def tabs_are_quoted(text: str) -> bool:
    """Whether quotes in tab-separated text stand around fields: see `_read_tabs`."""
    if '"' not in text:
        return False
    records = [line.split("\t") for line in text.split("\n") if line.strip()]
    quoted = [field for record in records for field in record if '"' in field]
    possible = _first_ragged(records) is not None or all(_FULLY_QUOTED.fullmatch(field) for field in quoted)
    if not possible:
        return False
    try:
        return _first_ragged(_Quoted(text, "\t").records) is None
    except csv.Error:
        return False


def _read_quoted(path: Path, text: str, delimiter: str) -> tuple[list[list[str]], list[int]]:
    records, lines = _parse_csv(path, text, delimiter)
    _refuse_ragged(path, records, lines)
    return records, lines


def _parse_csv(path: Path, text: str, delimiter: str) -> tuple[list[list[str]], list[int]]:
    """Raises UserError for a quote that is not closed, which would take all rows below it for one text."""
    try:
        found = _Quoted(text, delimiter)
    except csv.Error as error:
        raise UserError(f"{path} cannot be read as rows: {error}") from error
    if found.open is not None:
        raise UserError(
            f"{path}:{found.open} has a quote that is not closed: a quote at the beginning of a text needs quotes "
            'around the text, and is written twice in it ("")'
        )
    return found.records, found.lines


class _Quoted:
    """Records of text with quotes around some fields, and the line on which each starts."""

    _END = "\x00end\x00"

    def __init__(self, text: str, delimiter: str) -> None:
        """Raises csv.Error."""
        csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # The default refuses fields of more than 131,072 characters.
        # The last line is a record of its own unless a quote is still open there.
        stream = itertools.chain(io.StringIO(text, newline=""), [self._END])
        reader = csv.reader(stream, delimiter=delimiter)
        self.records: list[list[str]] = []
        self.lines: list[int] = []
        self.open: int | None = None
        """The line on which a record starts whose quote is never closed."""
        start = 1
        for record in reader:
            if record == [self._END]:
                break
            if any(field.strip() for field in record):
                self.records.append(record)
                self.lines.append(start)
            self.open, start = start, reader.line_num + 1
        else:
            self.records[-1][-1] = self.records[-1][-1].removesuffix(self._END)
            return
        self.open = None


def _first_ragged(records: list[list[str]]) -> int | None:
    """Index of the first record whose number of fields is not the usual one (None: there is none)."""
    sizes = Counter(map(len, records))
    if len(sizes) == 1:
        return None
    usual = sizes.most_common(1)[0][0]
    return next(index for index, record in enumerate(records) if len(record) != usual)


def _refuse_ragged(path: Path, records: list[list[str]], lines: list[int]) -> None:
    index = _first_ragged(records)
    if index is None:
        return
    usual = Counter(map(len, records)).most_common(1)[0][0]
    found, few = len(records[index]), len(records[index]) < usual
    raise UserError(
        f"{path}:{lines[index]} has {'only ' if few else ''}{counted(found, 'field')} where {usual} "
        f"{'was' if usual == 1 else 'were'} expected: "
        f"{'a separator is missing' if few else 'a separator inside a text needs quotes around the text'}"
    )


def _read_json(path: Path, text: str, checksum: str) -> Table:
    """One object a line, or one list of objects (then the line is the place in the list)."""
    numbered = _json_objects(path, text)
    columns = list(dict.fromkeys(key for _, value in numbered[:100] for key in value))
    records = [[json_field(value.get(key)) for key in columns] for _, value in numbered]
    lines, values = [line for line, _ in numbered], [value for _, value in numbered]
    nested = first_nested({key: [value.get(key) for value in values] for key in columns})
    return Table(path=path, sha256=checksum, records=records, lines=lines, columns=columns, nested=nested)


def first_nested(columns: Mapping[str, Sequence[Any]]) -> dict[str, int]:
    """Column to the index of its first list or object, for the columns that have one."""
    places = {
        name: next((index for index, value in enumerate(values) if isinstance(value, list | dict)), None)
        for name, values in columns.items()
    }
    return {name: index for name, index in places.items() if index is not None}


def _json_objects(path: Path, text: str) -> list[tuple[int, dict[str, Any]]]:
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if text.lstrip().startswith("[") and not (len(lines) > 1 and _is_json(lines[0][1])):
        values = list(enumerate(_parse_json(path, 1, text), 1))
    else:
        values = [(number, _parse_json(path, number, line)) for number, line in lines]
    for number, value in values:
        if not isinstance(value, dict):
            raise UserError(f"{path}:{number} is {_KINDS.get(type(value), 'a number')}: {_OBJECT}")
    return values


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _parse_json(path: Path, line: int, text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise UserError(f"{path}:{line} has lists or objects too deep in each other: {_OBJECT}") from error
    except ValueError as error:
        # The reader counts lines from the start of what it was given.
        line += getattr(error, "lineno", 1) - 1
        raise UserError(f"{path}:{line} is not json ({getattr(error, 'msg', error)}): {_OBJECT}") from error


def json_field(value: Any) -> str:
    """A field as text: null, NaN and absent ones are empty, lists and objects are json in case nobody needs the column.

    Python's json writes NaN where pandas has no value.
    """
    if value is None or value != value:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
