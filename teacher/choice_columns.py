"""Which columns of a table hold multiple choice: a context, a question, the choices, and which is right."""

import csv
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from common.errors import UserError, unknown_name
from teacher.columns import Asked
from teacher.decoding import UNREADABLE, open_start, suffix_of
from teacher.readers import Table, csv_delimiter

CONTEXTS = ("context", "sent1", "article", "passage", "premise", "ctx_a", "goal", "startphrase", "text")
QUESTIONS = ("question", "sent2", "question_stem", "ctx_b", "stem")
LISTS = ("choices", "options", "endings", "candidates", "answers")
RIGHT = ("label", "answer", "answerkey", "gold", "correct", "correct_answer", "answer_index")
_NUMBERED = re.compile(r"(ending|choice|option|answer|sol|candidate)_?(\d{1,2}|[a-j])", re.IGNORECASE)
_HEAD = 200_000


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Column names by role."""

    context: str | None
    question: str | None
    choices: tuple[str, ...]
    """One with a list, or one each."""
    right: str | None
    """None in a table without answers."""


def matches(file: Path) -> bool:
    """Whether its columns or keys hold several choices and which of them is right."""
    try:
        with open_start(file) as stream:
            head = stream.read(_HEAD).lstrip()
    except UNREADABLE:
        return False
    if suffix_of(file) in (".json", ".jsonl", ".ndjson"):
        try:
            first, _ = json.JSONDecoder().raw_decode(head.lstrip("[").lstrip())
        except (ValueError, RecursionError):
            return False
        if not isinstance(first, dict):
            return False
        lists = [name for name in first if name.lower() in LISTS and isinstance(first[name], list | dict)]
        return _choice_columns(list(first), lists) != () and _named(list(first), RIGHT) is not None
    if suffix_of(file) not in (".csv", ".tsv"):
        return False
    first = re.split("[\r\n]", head, maxsplit=1)[0]
    names = next(csv.reader([first], delimiter="\t" if suffix_of(file) == ".tsv" else csv_delimiter(first)), [])
    return _choice_columns(names, []) != () and _named(names, RIGHT) is not None


def _named(names: Sequence[str], wanted: Sequence[str]) -> str | None:
    """The first of the wanted names that is there, in any case of letters."""
    plain = {name.lower(): name for name in reversed(names)}
    return next((plain[name] for name in wanted if name in plain), None)


def _choice_columns(names: Sequence[str], lists: Sequence[str]) -> tuple[str, ...]:
    """The column with a list of choices, or those with a choice each, in order; empty: there are none such."""
    if lists:
        return (lists[0],)
    groups: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        if found := _NUMBERED.fullmatch(name.strip()):
            number = found.group(2)
            place = int(number) if number.isdecimal() else ord(number.lower())
            groups.setdefault(found.group(1).lower(), []).append((place, name))
    return next((tuple(name for _, name in sorted(group)) for group in groups.values() if len(group) > 1), ())


def find_roles(table: Table, asked: Asked, *, answers: bool = True) -> Roles:
    """Which column is what.

    Raises:
        UserError: a column that was named is not there; or one of the roles has none, that of the right answer only if
            there are to be `answers`.
    """
    names = names_of(table)
    for name in asked.names():
        if name not in names:
            raise UserError(f"{table.path}: {unknown_name('column', name, names)}")
    lists = [name for name in table.nested if name.lower() in LISTS]
    choices = _choice_columns(names, lists)
    context = asked.text or _named([name for name in names if name != asked.pair], CONTEXTS)
    question = asked.pair or _named([name for name in names if name != context], QUESTIONS)
    right = asked.label or _named(names, RIGHT)
    if not choices or (answers and right is None) or (context is None and question is None):
        raise UserError(
            f"{table.path}: a context or question{', choices and the right one' if answers else ' and choices'} were "
            f"expected in the columns; found {', '.join(names)}. Choose with --text-column, --pair-column"
            f"{' and --label-column' if answers else ''}"
        )
    return Roles(context=context, question=question, choices=choices, right=right)


def names_of(table: Table) -> list[str]:
    return table.columns if table.columns is not None else [name.strip() for name in table.records[0]]
