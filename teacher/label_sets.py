"""Texts with any number of labels each: lists in json lines, columns of 0 and 1, or one column with signs between."""

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from common.errors import UserError, unknown_name
from teacher.columns import LABEL_NAMES, Asked, Columns, column_names, find_texts, plain
from teacher.decoding import Oddities, clean
from teacher.empty import refuse_many_empty
from teacher.labels import natural_order
from teacher.raw import RawTask, Row
from teacher.readers import Table, first_object, read_table

KIND = "multilabel"
SEPARATORS = "|;,"
"""Between the labels in one column: the first of these that occurs in it."""
_YES = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False, "": False}

_NO_COMMA = re.compile(r"""['"]\s+['"]""")
"""Between texts of a numpy array as it is printed, which Python would join to one."""

Reader = Callable[[Sequence[str], str], list[str]]
"""From a row's fields and where it stands to its labels."""


def wanted(asked: Asked) -> bool:
    """Whether the user wants several labels a row, whatever the files look like."""
    return asked.kind == KIND or (asked.label is not None and "," in asked.label)


def matches(file: Path) -> bool:
    """Whether the first line is an object with a text and a list of labels."""
    first = first_object(file)
    return first is not None and any(
        plain(name) in LABEL_NAMES and isinstance(value, list) for name, value in first.items()
    )


def load(name: str, files: Mapping[str, Path], asked: Asked) -> RawTask:
    """The rows of each part; each row's label is a json list, which may be empty.

    Raises:
        UserError: a column that is not there, no text, a value other than 0 and 1, a list of other things than texts,
            a label that train lacks; names file and line.
    """
    if asked.kind not in ("auto", KIND):
        raise UserError(f"--kind {asked.kind}: the rows of {name} have several labels: leave --kind out")
    oddities = Oddities()
    tables = {part: read_table(file, oddities) for part, file in files.items()}
    named = asked.label.split(",") if asked.label else [_label_column(tables["train"], asked)]
    columns = [column.strip() for column in named]
    if len(set(columns)) < len(columns):
        raise UserError(f"--label-column {asked.label}: a column is named twice: name each once")
    texts = find_texts(tables["train"], Asked(text=asked.text, pair=asked.pair, label=columns[0]), others=columns[1:])
    train = column_names(tables["train"], texts.header)
    for column in columns:
        if column not in train:
            raise UserError(f"{tables['train'].path}: {unknown_name('column', column, train)}")
    raw = RawTask(
        name=name,
        parts={},
        origins={part: file.name for part, file in files.items()},
        sources={table.path.name: table.sha256 for table in tables.values()},
        kind=KIND,
        metric="micro_f1",
        label_column=",".join(columns),
    )
    sign = _separator(tables["train"], columns[0], texts.header) if len(columns) == 1 else ""
    for part, table in tables.items():
        names = column_names(table, texts.header)
        missing = [column for column in columns if column not in names]
        if missing and part != "train":
            raw.notes.append(f"{table.path.name} has no labels ({missing[0]!r} is missing), so it is not used")
            continue
        raw.parts[part] = _rows(table, texts, columns, sign, oddities, raw.notes)
    raw.labels = tuple(columns) if len(columns) > 1 else _found(raw.parts["train"])
    _check(raw, raw.labels)
    raw.notes.extend(oddities.notes())
    return raw


def _label_column(table: Table, asked: Asked) -> str:
    names = column_names(table, header=True)
    found = [name for name in names if plain(name) in LABEL_NAMES and name not in (asked.text, asked.pair)]
    if len(found) != 1:
        raise UserError(
            f"{table.path}: it is not clear which column holds the labels (found {', '.join(names)}). "
            "Choose with --label-column, one or several with commas between"
        )
    return found[0]


def _separator(table: Table, column: str, header: bool) -> str:
    place = column_names(table, header).index(column)
    fields = [record[place] for record in table.records[1 if header and table.columns is None else 0 :]]
    return next((sign for sign in SEPARATORS if any(sign in field for field in fields)), "")


def _rows(
    table: Table, texts: Columns, columns: Sequence[str], sign: str, oddities: Oddities, notes: list[str]
) -> list[Row]:
    names = column_names(table, texts.header)
    for name in (texts.text, texts.pair):
        if name is not None and name not in names:
            raise UserError(f"{table.path} has no column {name!r}: found {', '.join(names)}")
    places = [names.index(column) for column in columns]
    read: Reader = _by_columns(columns) if len(columns) > 1 else _by_signs(sign, columns[0] in table.nested)
    rows, empty = [], []
    for index in range(1 if texts.header and table.columns is None else 0, len(table.records)):
        record, where = table.records[index], table.where(index)
        text, *pair = (
            clean(record[names.index(name)], where, oddities) for name in (texts.text, texts.pair) if name is not None
        )
        if not text or "" in pair:
            empty.append(where)
            continue
        labels = sorted(set(read([record[place].strip() for place in places], where)), key=natural_order)
        label = json.dumps(labels, ensure_ascii=False)
        rows.append(Row(text, pair[0] if pair else None, label, table.path.name, table.lines[index]))
    refuse_many_empty(empty, len(rows), notes)
    return rows


def _by_columns(columns: Sequence[str]) -> Reader:
    def read(fields: Sequence[str], where: str) -> list[str]:
        for column, field in zip(columns, fields, strict=True):
            if field.lower() not in _YES:
                raise UserError(f"{where} has {field[:40]!r} in the label column {column!r}: 0 or 1 was expected")
        return [column for column, field in zip(columns, fields, strict=True) if _YES[field.lower()]]

    return read


def _by_signs(sign: str, nested: bool) -> Reader:
    def read(fields: Sequence[str], where: str) -> list[str]:
        (field,) = fields
        if nested and field[:1] in ("[", "{"):
            return _listed(field, where)
        if field.startswith("[") and field.endswith("]") and (several := _printed(field, where)) is not None:
            return several
        parts = field.split(sign) if sign else [field]
        return [part.strip() for part in parts if part.strip()]

    return read


def _printed(field: str, where: str) -> list[str] | None:
    """The labels in a list as Python prints it, which is what pandas writes into csv files; None: it is none such."""
    if _NO_COMMA.search(field):
        raise UserError(f"{where}: a list of labels with commas between was expected, found {field[:60]}")
    try:
        value = ast.literal_eval(field)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    if not isinstance(value, list) or not all(isinstance(label, str | int) for label in value):
        return None
    return [text for label in value if (text := str(label).strip())]


def _listed(field: str, where: str) -> list[str]:
    value = json.loads(field)
    if not isinstance(value, list) or not all(isinstance(label, str | int) and label != "" for label in value):
        raise UserError(f"{where}: a list of labels was expected, found {field[:60]}")
    return [str(label).strip() for label in value]


def _found(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(sorted({label for row in rows for label in json.loads(row.label)}, key=natural_order))


def _check(raw: RawTask, labels: tuple[str, ...]) -> None:
    train = raw.parts["train"]
    seen = set(_found(train))
    if len(labels) < 2:
        found = f"the only label is {labels[0]!r}" if labels else "no row has a label"
        raise UserError(f"{raw.origins['train']}: {found}: two labels or more are needed")
    if len(labels) > len(train):
        raise UserError(
            f"{raw.origins['train']} has {len(labels):,} different labels in {len(train):,} rows: is "
            f"{raw.label_column!r} the label column? Choose with --label-column"
        )
    for part, rows in raw.parts.items():
        for row in rows:
            for label in json.loads(row.label):
                if part != "train" and label not in labels:
                    shown = ", ".join(labels[:20])
                    raise UserError(f"{row.file}:{row.line} has the label {label!r}, which train lacks: it has {shown}")
    if absent := [label for label in labels if label not in seen]:
        raw.notes.append(f"no training row has the label {', '.join(absent)}")
