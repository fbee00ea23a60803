"""Texts from records with named fields: jsonl objects, and rows of csv and tsv."""

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

from common.errors import UserError
from distill.predict_lines import BadLineError, Faults, checked
from distill.predict_rows import Separated
from distill.predict_texts import Format, Reading, Text, cleaned
from teacher.columns import Columns, column_names, find_texts
from teacher.decoding import HALF_PAIR, HALVED, Oddities
from teacher.readers import Table, json_field

_HALF_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
ID_NAMES = ("id", "idx", "guid", "uid")
"""In lower case."""


class Rows:
    """Turns records with named fields into texts, once the columns are known."""

    nested: ClassVar[bool] = False
    """Columns may hold lists and objects."""

    def __init__(self, path: Path, reading: Reading, faults: Faults, oddities: Oddities, *, whole: str = "") -> None:
        """`whole`: which of "text" and "pair" is left as it stands."""
        self.path, self.faults = path, faults
        self._reading, self._oddities, self._whole = reading, oddities, whole

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
            name = "" if self._id is None else checked(json_field(values.get(self._id)), f"column {self._id!r}")
            yield Text(line, self._field(values, self._text, line), pair, name or None)
        except BadLineError as error:
            self.faults.add(line, str(error))

    def noted(self, line: int) -> Callable[[], None]:
        """What counts a line with half of a surrogate pair."""
        return partial(self._oddities.add, HALVED, f"{self.faults.source}:{line}")

    def _field(self, values: Mapping[str, Any], name: str, line: int) -> str:
        if name not in values:
            raise BadLineError(f"has no column {name!r}")
        value = values[name]
        if isinstance(value, list | dict):
            raise BadLineError(f"has a list or an object in column {name!r}, where text was expected")
        whole = name == {"text": self._text, "pair": self._pair}.get(self._whole)
        return cleaned(json_field(value), line, f"column {name!r}", self.faults, self._oddities, whole=whole)


def objects(sample: list[tuple[int, str]], rest: Iterator[tuple[int, str]], kind: Format, rows: Rows) -> Iterator[Text]:
    """Texts of jsonl lines, given as (number, line), the first ones as the sample that settles the columns.

    Raises:
        UserError: no object in the sample, or no clear text column.
    """
    numbered = [(number, line) for number, line in sample if is_object(line)]
    if not numbered and sample:
        raise UserError(
            f'{rows.path}:{sample[0][0]} is not a JSON object, nor is one after it: lines like {{"text": ...}} were '
            "expected. --format txt takes one text a line"
        )
    values = [json.loads(line) for _, line in numbered]
    names = list(dict.fromkeys(name for value in values for name in value if rows.nested or _plain_field(value[name])))
    records = [[json_field(value.get(name)) for name in names] for value in values]
    rows.settle(_table(rows.path, records, names))
    for number, line in itertools.chain(sample, rest):
        if line.strip():
            yield from rows.texts(number, partial(_object, line, rows.noted(number)))


def _plain_field(value: Any) -> bool:
    return value is not None and not isinstance(value, list | dict)


def _object(line: str, halved: Callable[[], None]) -> Mapping[str, Any]:
    """A line's object; `halved` is called where there was half of a surrogate pair in a text, which is replaced."""
    checked(line, "")
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadLineError(f"is broken JSON ({getattr(error, 'msg', error)})") from error
    if not isinstance(value, dict):
        raise BadLineError('is no JSON object such as {"text": ...}')
    # Bytes that are no UTF-8 were found before: only an escape can have written one.
    if _HALF_ESCAPE.search(line) and (whole := _replaced(value)) != value:
        halved()
        return cast(Mapping[str, Any], whole)
    return value


def _replaced(value: Any) -> Any:
    """Texts of any depth with U+FFFD for halves of surrogate pairs."""
    if isinstance(value, dict):
        return {name: _replaced(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_replaced(entry) for entry in value]
    return HALF_PAIR.sub("\ufffd", value) if isinstance(value, str) else value


def separated(
    sample: list[tuple[int, str]], rest: Iterator[tuple[int, str]], kind: Format, rows: Rows
) -> Iterator[Text]:
    """Texts of the rows of a csv or tsv file, given as `objects` takes them.

    Raises:
        UserError: no row in the sample, or no clear text column.
    """
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


def is_object(line: str) -> bool:
    """Whether a line is a JSON object."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
