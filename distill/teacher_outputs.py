"""A teacher that is only its outputs: a file with texts and a probability or a logit for each class."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.errors import UserError, unknown_name
from common.progress import say
from common.words import counted
from distill.unlabeled import Text
from teacher.columns import Asked, column_names, find_texts, has_header
from teacher.data import Example, TaskData
from teacher.decoding import Oddities, clean
from teacher.labels import match_names
from teacher.readers import Table, read_table
from teacher.splits import same
from teacher.tasks import task_for

SUM_TOLERANCE = 1e-3
LEAST_PROBABILITY = 1e-6
"""Stands for a probability of 0, whose logarithm has no end."""
FORMS = ("probabilities", "logits")
SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class TeacherOutputs:
    """Texts and what the teacher said to them."""

    path: Path
    sha256: str
    rows: Mapping[Text, np.ndarray]
    """Text and pair, white space made even, to (outputs,) fp32 logits: log probabilities where these were given."""

    def logits(self, examples: Sequence[Example]) -> np.ndarray:
        """(n, outputs) fp32; a row of NaN where the file lacks the text."""
        width = len(next(iter(self.rows.values())))
        nothing = np.full(width, np.nan, dtype=np.float32)
        return np.stack([self.rows.get(same(example.text, example.pair), nothing) for example in examples])

    def missing(self, examples: Sequence[Example]) -> list[str]:
        """The texts that the file lacks."""
        return [example.text for example in examples if same(example.text, example.pair) not in self.rows]

    def require(self, examples: Sequence[Example], what: str, *, allow_missing: bool) -> None:
        """Say how many of `examples` the file lacks.

        Raises:
            UserError: some, and they are not to be missing; or all.
        """
        missing = self.missing(examples)
        if not missing:
            return
        quoted = ", ".join(repr(text[:60]) for text in missing[:SHOWN])
        lacks = f"{self.path} lacks {len(missing):,} of {counted(len(examples), 'text')} of {what} ({quoted})"
        if len(missing) == len(examples):
            raise UserError(f"--teacher-outputs: {lacks}: are its texts the task's, written in the same way?")
        if not allow_missing:
            raise UserError(f"--teacher-outputs: {lacks}: add them, or give --allow-missing")
        say(f"  note: {lacks}: only their labels are learned, where they have any")


def read_outputs(
    path: Path, data: TaskData, *, text_column: str | None = None, pair_column: str | None = None
) -> TeacherOutputs:
    """Read and check a jsonl file (text, pair, probabilities or logits by label) or a csv file (a column a label).

    A csv file whose rows mostly have a negative number holds logits, any other probabilities. Labels are matched with
    the data's by name, if need be in another case of letters.

    Raises:
        UserError: labels that differ, numbers that are none, sums that are not 1, a text with two different outputs.
    """
    oddities = Oddities()
    table = read_table(path, oddities)
    places = _text_places(table, data, text_column, pair_column)
    first = _first_row(table, data)
    labels = data.labels or tuple(str(name) for name in task_for(data).head()["id2label"].values())
    reading = _Reading(binary=data.kind == "multilabel", regression=not data.labels)
    numbers = _nested(table, labels, reading) if table.columns else _flat(table, labels, first, reading)
    rows: dict[Text, np.ndarray] = {}
    where: dict[Text, str] = {}
    for index, logits in zip(range(first, len(table.records)), numbers, strict=True):
        fields = [clean(table.records[index][place], table.where(index), oddities) for place in places]
        key = same(fields[0], fields[1] if len(fields) > 1 else None)
        if key in rows and not np.allclose(rows[key], logits, atol=1e-5):
            raise UserError(f"{table.where(index)} has other outputs than {where[key]} for the same text: keep one")
        rows.setdefault(key, logits)
        where.setdefault(key, table.where(index))
    for note in oddities.notes():
        say(f"  note: {path.name}: {note}")
    return TeacherOutputs(path=path, sha256=table.sha256, rows=rows)


@dataclass(frozen=True, kw_only=True)
class _Reading:
    """What the numbers of a row mean."""

    binary: bool
    """Each probability stands alone: texts may have several labels."""
    regression: bool


def _asked(table: Table, data: TaskData, text: str | None, pair: str | None) -> Asked:
    """The user's columns, which are the data file's, where this file has them too."""
    names = table.columns or [name.strip() for name in table.records[0]]
    pairs = data.paired
    second = next((name for name in (pair, "pair") if name in names), None) if pairs else None
    return Asked(text=text if text in names else None, pair=second)


def _text_places(table: Table, data: TaskData, text: str | None, pair: str | None) -> list[int]:
    columns = find_texts(table, _asked(table, data, text, pair))
    names = column_names(table, columns.header)
    places = [names.index(name) for name in (columns.text, columns.pair) if name is not None]
    if (len(places) == 2) != (data.paired):
        raise UserError(
            f"{table.path} has {'a second text' if len(places) == 2 else 'one text'} a row, unlike the task: choose "
            "with --text-column and --pair-column, or call the columns text and pair"
        )
    return places


def _first_row(table: Table, data: TaskData) -> int:
    if table.columns is not None:
        return 0
    if not has_header(table, Asked()) and not set(data.labels) <= {name.strip() for name in table.records[0]}:
        raise UserError(f"{table.path}:1: a header with the names of the labels was expected: {', '.join(data.labels)}")
    return 1


def _nested(table: Table, labels: Sequence[str], reading: _Reading) -> list[np.ndarray]:
    """The logits of every row of a jsonl file."""
    present = [name for name in FORMS if name in (table.columns or ())]
    if not present:
        raise UserError(
            f"{table.path}: an object 'probabilities' or 'logits' of label to number was expected in each row"
        )
    found = []
    for index, record in enumerate(table.records):
        where = table.where(index)
        given = {name: record[(table.columns or []).index(name)] for name in present}
        given = {name: text for name, text in given.items() if text}
        if len(given) != 1:
            raise UserError(f"{where}: one of {' and '.join(FORMS)} was expected, found {', '.join(given) or 'none'}")
        ((form, text),) = given.items()
        found.append(_logits(_by_label(text, labels, where), form, where, reading))
    return found


def _by_label(text: str, labels: Sequence[str], where: str) -> list[float]:
    """The numbers of a JSON object in the order of the labels."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UserError(f"{where}: an object of label to number was expected, found {text[:60]}")
    places = match_names(labels, list(value))
    for name in value:
        if name.casefold() not in {label.casefold() for label in labels}:
            raise UserError(f"{where}: {unknown_name('label', name, labels)}")
    if places is None:
        raise UserError(f"{where} has no number for {_missing(labels, list(value))}")
    numbers = list(value.values())
    return [_number(numbers[place], where) for place in places]


def _missing(labels: Sequence[str], names: Sequence[str]) -> str:
    """The labels that none of the names stands for; where only their case of letters differs, those not so written."""
    folded = {name.casefold() for name in names}
    strange = [label for label in labels if label.casefold() not in folded]
    return ", ".join(strange or (label for label in labels if label not in names))


def _flat(table: Table, labels: Sequence[str], first: int, reading: _Reading) -> list[np.ndarray]:
    """The logits of every row of a csv file."""
    names = [name.strip() for name in table.records[0]]
    places = match_names(labels, names)
    if places is None:
        raise UserError(
            f"{table.path} has no column for {_missing(labels, names)}: found {', '.join(names)}; a column a label was "
            "expected"
        )
    rows = [
        [_number(table.records[index][place], table.where(index)) for place in places]
        for index in range(first, len(table.records))
    ]
    form = "logits" if reading.regression or 2 * sum(min(row) < 0 for row in rows) > len(rows) else "probabilities"
    say(f"{table.path}: read as {form}")
    return [_logits(row, form, table.where(first + index), reading) for index, row in enumerate(rows)]


def _number(value: object, where: str) -> float:
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else np.nan
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise UserError(f"{where}: {value!r} was found where a number was expected")
    return number


def _logits(numbers: Sequence[float], form: str, where: str, reading: _Reading) -> np.ndarray:
    values = np.asarray(numbers, dtype=np.float64)
    if form == "logits":
        return values.astype(np.float32)
    if reading.binary:
        return _binary_logits(values, where)
    if values.min() < 0 or abs(values.sum() - 1) > SUM_TOLERANCE:
        found = "one is below 0" if values.min() < 0 else f"they add up to {values.sum():.6g}"
        raise UserError(
            f"{where}: probabilities with the sum 1, give or take {SUM_TOLERANCE}, were expected, but {found}"
        )
    return np.log(np.maximum(values / values.sum(), LEAST_PROBABILITY)).astype(np.float32)


def _binary_logits(probabilities: np.ndarray, where: str) -> np.ndarray:
    """Of labels each of which a text may have or not."""
    if probabilities.min() < 0 or probabilities.max() > 1:
        raise UserError(f"{where}: probabilities between 0 and 1 were expected, one for each label")
    kept = probabilities.clip(LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    return np.log(kept / (1 - kept)).astype(np.float32)
