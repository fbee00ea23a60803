"""The texts to predict for, streamed: lines of text, jsonl objects, or rows of csv and tsv."""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from common.errors import UserError
from distill.predict_lines import STDIN, BadLineError, Faults, Lines, checked
from distill.predict_rows import Separated
from teacher.columns import Asked, Columns, column_names, find_texts
from teacher.decoding import Oddities, clean
from teacher.readers import Table

Format = Literal["auto", "txt", "csv", "tsv", "jsonl"]
SUFFIXES: dict[str, Format] = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".txt": "txt"}
SAMPLE = 1000
"""Lines by which columns and separators are found."""
ID_NAMES = ("id", "idx", "guid", "uid")
"""In lower case."""


@dataclass(frozen=True, slots=True)
class Text:
    """What one prediction is for."""

    line: int
    """Where it starts, from 1."""
    text: str
    pair: str | None = None
    id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What is read."""

    file: Path | None = None
    """File with the texts, .gz too; - is standard input."""
    format: Format = "auto"
    """Of the texts. auto goes by the file's name; without one that says it a first line that is a JSON object means
    jsonl, any other one text a line."""
    text_column: str | None = None
    """Column with the text (name, or number from 1 in a file without header); found as --task of other commands does
    if not given."""
    pair_column: str | None = None
    """Column with the second text."""
    id_column: str | None = None
    """Column that names a row in the output; id, idx, guid or uid if not given."""

    def asked(self) -> Asked:
        """The columns that the user named."""
        return Asked(text=self.text_column, pair=self.pair_column)


def read_texts(lines: Lines, path: Path | None, reading: Reading, faults: Faults, oddities: Oddities) -> Iterator[Text]:
    """Every text in its order; bad lines become faults.

    Raises:
        UserError: it is not clear which column is the text, or one that was named does not exist; a bad line, where
            faults are strict.
    """
    numbered = iter(lines)
    first = next(numbered, None)
    if first is None:
        return
    numbered = itertools.chain([first], numbered)
    kind = _format(path, reading, first[1])
    if kind == "txt":
        if reading.text_column or reading.pair_column or reading.id_column:
            raise UserError(f"{faults.source} has one text a line, so no columns: leave --text-column and its like out")
        yield from _plain(numbered, faults, oddities)
        return
    sample = _sample(numbered, short=path is None and kind == "jsonl")
    read = _objects if kind == "jsonl" else _rows
    yield from read(sample, numbered, kind, _Rows(Path(faults.source), reading, faults, oddities))


def _sample(numbered: Iterator[tuple[int, str]], *, short: bool) -> list[tuple[int, str]]:
    """The first lines; a `short` sample ends with a JSON object: who writes one line at a time waits for its answer."""
    sample = []
    for number, line in itertools.islice(numbered, SAMPLE):
        sample.append((number, line))
        if short and _is_object(line):
            break
    return sample


def _format(path: Path | None, reading: Reading, first: str) -> Format:
    if reading.format != "auto":
        return reading.format
    if path is not None:
        name = path.with_suffix("") if path.suffix.lower() == ".gz" else path
        if name.suffix.lower() in SUFFIXES:
            return SUFFIXES[name.suffix.lower()]
        if first.lstrip().startswith("[") and name.suffix.lower() == ".json":
            raise UserError(f"{path} is one list of objects: make it jsonl, one object a line, to have it streamed")
        if reading.text_column is not None and not first.lstrip().startswith("{"):
            return "tsv" if "\t" in first else "csv"
    return "jsonl" if _is_object(first) else "txt"


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _plain(lines: Iterator[tuple[int, str]], faults: Faults, oddities: Oddities) -> Iterator[Text]:
    for number, line in lines:
        try:
            yield Text(number, _cleaned(line, number, "", faults, oddities))
        except BadLineError as error:
            faults.add(number, str(error))


def _cleaned(text: str, line: int, what: str, faults: Faults, oddities: Oddities) -> str:
    """As a task's texts are; `what` is the field, or "".

    Raises:
        BadLineError: no UTF-8, or nothing in it.
    """
    found = clean(checked(text, what), f"{faults.source}:{line}", oddities)
    if not found:
        raise BadLineError(f"has no text in {what}" if what else "has no text")
    return found


class _Rows:
    """Turns records with named fields into texts, once the columns are known."""

    def __init__(self, path: Path, reading: Reading, faults: Faults, oddities: Oddities) -> None:
        self.path, self.faults = path, faults
        self._reading, self._oddities = reading, oddities

    def settle(self, table: Table) -> Columns:
        """Find the roles of the columns by a sample of the rows.

        Raises:
            UserError: see `teacher.columns.find_texts`.
        """
        columns = find_texts(table, self._reading.asked())
        names = column_names(table, columns.header)
        asked = self._reading.id_column
        if asked is not None and asked not in names:
            raise UserError(f"{self.path} has no column {asked!r} (--id-column): found {', '.join(names)}")
        taken = (columns.text, columns.pair)
        self._id = asked or next((name for name in names if name.lower() in ID_NAMES and name not in taken), None)
        self._text, self._pair, self.names = columns.text, columns.pair, names
        return columns

    def texts(self, line: int, load: Callable[[], Mapping[str, Any]]) -> Iterator[Text]:
        """The text of one record, or none."""
        try:
            values = load()
            pair = None if self._pair is None else self._field(values, self._pair, line)
            name = "" if self._id is None else checked(_shown(values.get(self._id)), f"column {self._id!r}")
            yield Text(line, self._field(values, self._text, line), pair, name or None)
        except BadLineError as error:
            self.faults.add(line, str(error))

    def _field(self, values: Mapping[str, Any], name: str, line: int) -> str:
        if name not in values:
            raise BadLineError(f"has no column {name!r}")
        value = values[name]
        if isinstance(value, list | dict):
            raise BadLineError(f"has a list or an object in column {name!r}, where text was expected")
        return _cleaned(_shown(value), line, f"column {name!r}", self.faults, self._oddities)


def _shown(value: Any) -> str:
    """A field as text; null is empty."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _objects(
    sample: list[tuple[int, str]], rest: Iterator[tuple[int, str]], kind: Format, rows: _Rows
) -> Iterator[Text]:
    numbered = [(number, line) for number, line in sample if _is_object(line)]
    if not numbered and sample:
        raise UserError(
            f'{rows.path}:{sample[0][0]} is not a JSON object, nor is one after it: lines like {{"text": ...}} were '
            "expected. --format txt takes one text a line"
        )
    values = [json.loads(line) for _, line in numbered]
    names = list(dict.fromkeys(name for value in values for name in value if _plain_field(value[name])))
    records = [[_shown(value.get(name)) for name in names] for value in values]
    rows.settle(_table(rows.path, records, names))
    for number, line in itertools.chain(sample, rest):
        if line.strip():
            yield from rows.texts(number, partial(_object, line))


def _plain_field(value: Any) -> bool:
    return value is not None and not isinstance(value, list | dict)


def _object(line: str) -> Mapping[str, Any]:
    checked(line, "")
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadLineError(f"is broken JSON ({getattr(error, 'msg', error)})") from error
    if not isinstance(value, dict):
        raise BadLineError('is no JSON object such as {"text": ...}')
    return value


def _rows(sample: list[tuple[int, str]], rest: Iterator[tuple[int, str]], kind: Format, rows: _Rows) -> Iterator[Text]:
    shape = Separated.of([line for _, line in sample], tabs=kind == "tsv")
    seen = [record.fields for record in shape.records(iter(sample)) if not record.fault]
    width = Counter(map(len, seen)).most_common(1)[0][0] if seen else 0
    regular = [fields for fields in seen if len(fields) == width]
    if not regular:
        raise UserError(f"{rows.path} is empty: rows with a text were expected")
    header = rows.settle(_table(rows.path, regular, None)).header
    for record in shape.records(itertools.chain(sample, rest)):
        if header and record.fields == regular[0]:
            header = False
            continue
        yield from rows.texts(record.line, partial(record.named, rows.names))


def _table(path: Path, records: list[list[str]], columns: list[str] | None) -> Table:
    return Table(path=path, sha256="", records=records, lines=list(range(1, len(records) + 1)), columns=columns)


def source_name(path: Path | None) -> str:
    """For messages."""
    return STDIN if path is None else str(path)
