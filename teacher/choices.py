"""Tables of multiple choice to rows: a context, perhaps a question, several choices, and which of them is right."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import UserError, unknown_name
from common.words import counted
from teacher.choice_columns import Roles, find_roles, names_of
from teacher.columns import Asked
from teacher.decoding import Oddities, clean
from teacher.raw import RawTask, Row
from teacher.readers import Table, read_table

KIND = "choices"


@dataclass(frozen=True, kw_only=True)
class _Choices:
    """The choices of one row."""

    texts: tuple[str, ...]
    names: tuple[str, ...]
    """What they are called, as in "A"; empty where nothing says that."""


def load(name: str, files: Mapping[str, Path], asked: Asked) -> RawTask:
    """The rows of each part; where rows have to be held out, those of one context stay together.

    What is right is said by its number, from 0, or from 1 where none of the training file is 0 and one is the number of
    choices; by its letter or name; or by its text.

    Raises:
        UserError: no choices, or an answer that is none of them; names file and line.
    """
    oddities = Oddities()
    tables = {part: read_table(file, oddities) for part, file in files.items()}
    roles = find_roles(tables["train"], asked)
    raw = RawTask(
        name=name,
        parts={},
        origins={part: file.name for part, file in files.items()},
        sources={table.path.name: table.sha256 for table in tables.values()},
        kind=KIND,
        metric="accuracy",
        label_column=roles.right,
        group=lambda row: row.text,
        key=lambda row: (row.text, row.detail),
    )
    base = _base(_cells(tables["train"], roles.right), tables["train"], roles)
    if base:
        raw.notes.append(f"{roles.right} counts choices from 1")
    for part, table in tables.items():
        if part != "train" and not any(_cells(table, roles.right)):
            raw.notes.append(f"{table.path.name} has no answers, so it is not used")
            continue
        raw.parts[part] = [_row(table, index, roles, base, oddities) for index in _rows(table)]
    raw.labels = tuple(str(place) for place in range(1, max(_sizes(raw)) + 1))
    if len(set(_sizes(raw))) > 1:
        raw.notes.append(f"rows have {min(_sizes(raw))} to {counted(max(_sizes(raw)), 'choice')}")
    raw.notes.extend(oddities.notes())
    return raw


def _sizes(raw: RawTask) -> list[int]:
    return [len(row.detail) for rows in raw.parts.values() for row in rows]


def _rows(table: Table) -> range:
    return range(0 if table.columns is not None else 1, len(table.records))


def _cell(table: Table, index: int, name: str) -> str:
    names = names_of(table)
    if name not in names:
        raise UserError(f"{table.path}: {unknown_name('column', name, names)}")
    return table.records[index][names.index(name)].strip()


def _cells(table: Table, name: str) -> list[str]:
    """A column; empty texts where it is not there."""
    return [_cell(table, index, name) if name in names_of(table) else "" for index in _rows(table)]


def _row(table: Table, index: int, roles: Roles, base: int, oddities: Oddities) -> Row:
    """The context, or the question where there is none, and as detail every choice, behind the question if both are."""
    where = table.where(index)
    given = _choices(table, index, roles)
    context, question = (
        clean(_cell(table, index, name), where, oddities) if name is not None else ""
        for name in (roles.context, roles.question)
    )
    if not context:
        context, question = question, ""
    if not context:
        raise UserError(f"{where} has neither a context nor a question: every row needs one")
    texts = tuple(clean(f"{question} {text}", where, oddities) for text in given.texts)
    place = _place(_cell(table, index, roles.right), given, base, where)
    return Row(context, None, str(place + 1), table.path.name, table.lines[index], texts)


def _choices(table: Table, index: int, roles: Roles) -> _Choices:
    where = table.where(index)
    if len(roles.choices) == 1:
        found = _listed(_cell(table, index, roles.choices[0]), roles.choices[0], where)
    else:
        cells = [_cell(table, index, name) for name in roles.choices]
        while cells and not cells[-1]:
            cells.pop()
        found = _Choices(texts=tuple(cells), names=())
    if len(found.texts) < 2 or not all(text.strip() for text in found.texts):
        raise UserError(f"{where}: two choices or more, none of them empty, were expected")
    return found


def _listed(cell: str, column: str, where: str) -> _Choices:
    """A list of texts, a list of objects with "label" and "text", or an object of two such lists."""
    try:
        value: Any = json.loads(cell)
    except ValueError:
        value = None
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        names = value["label"] if isinstance(value.get("label"), list) else [""] * len(value["text"])
        value = [{"text": text, "label": name} for text, name in zip(value["text"], names, strict=False)]
    if isinstance(value, list) and value and all(isinstance(entry, dict) and "text" in entry for entry in value):
        return _Choices(
            texts=tuple(str(entry["text"]) for entry in value),
            names=tuple(str(entry.get("label", "")) for entry in value),
        )
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise UserError(f"{where}: a list of texts was expected in {column!r}, found {cell[:60]!r}")
    return _Choices(texts=tuple(value), names=())


def _base(answers: Sequence[str], table: Table, roles: Roles) -> int:
    """What the first choice is called where choices are numbered: 0 or 1."""
    if not all(answer.isdecimal() for answer in answers) or any(int(answer) == 0 for answer in answers):
        return 0
    sizes = (len(_choices(table, index, roles).texts) for index in _rows(table))
    return int(any(int(answer) == size for answer, size in zip(answers, sizes, strict=True)))


def _place(answer: str, given: _Choices, base: int, where: str) -> int:
    """Which choice is right, from 0."""
    letters = {chr(ord("A") + place): place for place in range(len(given.texts))}
    if answer in given.names:
        return given.names.index(answer)
    if answer.isdecimal() and 0 <= int(answer) - base < len(given.texts):
        return int(answer) - base
    if answer.upper() in letters:
        return letters[answer.upper()]
    if given.texts.count(answer) == 1:
        return given.texts.index(answer)
    raise UserError(
        f"{where}: the answer {answer[:60]!r} is none of the {len(given.texts)} choices: a number from {base}, a "
        "letter or the text of a choice was expected"
    )
