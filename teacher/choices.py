"""Tables of multiple choice to rows: a context, perhaps a question, several choices, and which of them is right."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from common.errors import UserError, unknown_name
from common.words import counted
from teacher.choice_columns import Roles, find_roles, names_of
from teacher.choice_rows import Given, given_in
from teacher.columns import Asked
from teacher.decoding import Oddities
from teacher.raw import RawTask, Row
from teacher.readers import Table, read_table

KIND = "choices"


def load(name: str, files: Mapping[str, Path], asked: Asked) -> RawTask:
    """The rows of each part; where rows have to be held out, those of one context stay together.

    What is right is said by its text, where the training file always says it so; by its name; by its number, from 0, or
    from 1 where none of the training file is 0 and one is the number of choices; by its letter; or by its text.

    Raises:
        UserError: no choices, or an answer that is none of them; names file and line.
    """
    oddities = Oddities()
    tables = {part: read_table(file, oddities) for part, file in files.items()}
    roles = find_roles(tables["train"], asked)
    right = str(roles.right)
    raw = RawTask(
        name=name,
        parts={},
        origins={part: file.name for part, file in files.items()},
        sources={table.path.name: table.sha256 for table in tables.values()},
        kind=KIND,
        metric="accuracy",
        label_column=right,
        group=lambda row: row.text,
        key=lambda row: (row.text, row.detail),
    )
    answers = _cells(tables["train"], right)
    texts = _are_texts(answers, tables["train"], roles)
    base = 0 if texts else _base(answers, tables["train"], roles)
    if texts and any(answer.isdecimal() for answer in answers):
        raw.notes.append(f"{right} says the text of a choice, and not its number")
    if base:
        raw.notes.append(f"{right} counts choices from 1")
    for part, table in tables.items():
        if part != "train" and not any(_cells(table, right)):
            raw.notes.append(f"{table.path.name} has no answers, so it is not used")
            continue
        place = _by_text if texts else partial(_place, base=base)
        raw.parts[part] = [_row(table, index, roles, place, oddities) for index in _rows(table)]
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


def _row(table: Table, index: int, roles: Roles, place_of: Callable[[str, Given, str], int], oddities: Oddities) -> Row:
    """The context, or the question where there is none; its detail are the choices."""
    where = table.where(index)
    given = given_in(partial(_cell, table, index), roles, where, oddities)
    place = place_of(_cell(table, index, str(roles.right)), given, where)
    return Row(given.context, None, str(place + 1), table.path.name, table.lines[index], given.texts)


def _are_texts(answers: Sequence[str], table: Table, roles: Roles) -> bool:
    """Whether every answer is the text of one of its choices, so that "3" is not the third of 2, 3 and 4."""
    return all(
        _with_text(answer, given) is not None and answer not in given.names
        for answer, given in zip(answers, _given(table, roles), strict=True)
    )


def _base(answers: Sequence[str], table: Table, roles: Roles) -> int:
    """What the first choice is called where choices are numbered: 0 or 1."""
    if not all(answer.isdecimal() for answer in answers) or any(int(answer) == 0 for answer in answers):
        return 0
    return int(any(int(answer) == len(given.own) for answer, given in zip(answers, _given(table, roles), strict=True)))


def _given(table: Table, roles: Roles) -> Iterator[Given]:
    quiet = Oddities()
    return (given_in(partial(_cell, table, index), roles, table.where(index), quiet) for index in _rows(table))


def _with_text(answer: str, given: Given) -> int | None:
    """The choice that is written so, from 0; None where there is none, or more than one."""
    return given.own.index(answer) if given.own.count(answer) == 1 else None


def _by_text(answer: str, given: Given, where: str) -> int:
    place = _with_text(answer, given)
    if place is None:
        raise UserError(
            f"{where}: the answer {answer[:60]!r} is not the text of one of the {len(given.own)} choices, as all of "
            "the training file are"
        )
    return place


def _place(answer: str, given: Given, where: str, *, base: int) -> int:
    """Which choice is right, from 0."""
    letters = {chr(ord("A") + place): place for place in range(len(given.own))}
    if answer and answer in given.names:
        return given.names.index(answer)
    if answer.isdecimal() and 0 <= int(answer) - base < len(given.own):
        return int(answer) - base
    if answer.upper() in letters:
        return letters[answer.upper()]
    if (place := _with_text(answer, given)) is not None:
        return place
    raise UserError(
        f"{where}: the answer {answer[:60]!r} is none of the {len(given.own)} choices: a number from {base}, a "
        "letter or the text of a choice was expected"
    )
