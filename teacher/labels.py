"""What the labels of a task are: classes in a fixed order, or numbers."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from common.errors import UserError
from common.words import counted
from teacher.raw import RawTask, Row

MOST_NUMBER_CLASSES = 30
"""Whole numbers with more distinct values than this are a regression."""
SEVERAL = ("tags", "multilabel")
"""Kinds of task with several labels a row."""
TEXTS = ("questions",)
"""Kinds of task whose labels are texts."""
MOST_STRAYS = 0.05
"""Numbers with at most this share of other labels (or one among ten) are still numbers, and the others faults."""


_BELOW_ZERO = re.compile(r"-\d+(?:\.\d+)?")


def settle_labels(raw: RawTask) -> None:
    """Fill in `raw.kind`, `raw.labels` and `raw.metric` from the training labels where the source did not say them, and
    give every row of a known task its class by name.

    Raises:
        UserError: one class only; a label outside train that train lacks; a word among numbers; hardly a label that
            comes twice.

    Tasks of other kinds come with their labels, checked by their readers.
    """
    train = raw.parts["train"]
    if raw.kind not in (None, "classification", "regression"):
        return
    if raw.kind is None:
        raw.kind = "regression" if _are_numbers(train) else "classification"
    raw.metric = raw.metric or ("pearson_spearman" if raw.kind == "regression" else "accuracy")
    if raw.kind == "regression":
        raw.labels = ()
        _check_numbers(raw.parts)
        return
    if raw.labels is None:
        counts = Counter(row.label for row in train)
        raw.labels = tuple(sorted(counts, key=natural_order))
        raw.notes.extend(_single_notes(counts))
    else:
        raw.parts = {part: _named(rows, raw.labels) for part, rows in raw.parts.items()}
    _check_classes(raw, raw.labels)


def too_many_labels(raw: RawTask) -> UserError:
    """The error for labels of which hardly one comes twice."""
    train = raw.parts["train"]
    found = counted(len({row.label for row in train}), "different label")
    return UserError(
        f"{train[0].file} has {found} in {counted(len(train), 'row')}: is {raw.label_column!r} the label column? "
        "Choose with --label-column"
    )


def nearly_all(flags: Sequence[bool]) -> bool:
    """Whether all but a few are true: `MOST_STRAYS` of them, or one among ten or more."""
    return len(flags) - sum(flags) <= max(len(flags) >= 10, MOST_STRAYS * len(flags))


def natural_order(label: str) -> list[tuple[int, int, str]]:
    """Sort key: numbers by value, words by alphabet, "class2" before "class10"."""
    if _BELOW_ZERO.fullmatch(label):
        whole, *others = natural_order(label[1:])
        return [(0, -whole[1], ""), *others]
    pieces = re.split(r"(\d+)", label)
    return [(0, int(piece), "") if piece.isdecimal() else (1, 0, piece) for piece in pieces if piece]


def label_reader(kind: str, labels: Sequence[str]) -> Callable[[Row], Any]:
    """From a row to what its example has as label: an index, several of them, a text, or a number.

    Tags stand in a row one behind the other with spaces between, a set of labels as a json list.
    """
    indices = {label: index for index, label in enumerate(labels)}
    if kind == "multilabel":
        return lambda row: tuple(sorted(indices[label] for label in json.loads(row.label)))
    if kind in SEVERAL:
        return lambda row: tuple(indices[label] for label in row.label.split())
    if kind in TEXTS:
        return lambda row: row.label
    if labels:
        return lambda row: indices[row.label]
    return lambda row: float(row.label)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _are_numbers(rows: Iterable[Row]) -> bool:
    """Nearly all numbers, of which some are no whole ones, or very many."""
    values = [_number(row.label) for row in rows]
    numbers = {value for value in values if value is not None}
    if not nearly_all([value is not None for value in values]):
        return False
    return len(numbers) > MOST_NUMBER_CLASSES or any(not value.is_integer() for value in numbers)


def _check_numbers(parts: Mapping[str, Sequence[Row]]) -> None:
    for rows in parts.values():
        for row in rows:
            if _number(row.label) is None:
                raise UserError(
                    f"{row.file}:{row.line} has the label {row.label!r} where the others are numbers: put a number "
                    "there or leave the row out (or write all labels as words, if they are classes)"
                )
    if len({row.label for row in parts["train"]}) == 1:
        raise UserError(f"{parts['train'][0].file}: every label is {parts['train'][0].label}: nothing can be learned")


def _named(rows: Sequence[Row], labels: tuple[str, ...]) -> list[Row]:
    """Indices as class names, where a known task's files hold indices."""
    names = {str(index): label for index, label in enumerate(labels)}
    return [Row(row.text, row.pair, names.get(row.label, row.label), row.file, row.line) for row in rows]


def _check_classes(raw: RawTask, labels: tuple[str, ...]) -> None:
    train = raw.parts["train"]
    present = {row.label for row in train}
    if len(present) == 1:
        raise UserError(f"{train[0].file}: every row has the label {train[0].label!r}: two classes or more are needed")
    for rows in raw.parts.values():
        for row in rows:
            if row.label not in labels or row.label not in present:
                if 2 * len(present) > len(train):
                    raise too_many_labels(raw)
                shown = ", ".join(sorted(present, key=natural_order)[:20])
                raise UserError(f"{row.file}:{row.line} has the label {row.label!r}, which train lacks: it has {shown}")


def _single_notes(counts: Counter[str]) -> list[str]:
    single = [label for label, count in counts.items() if count == 1]
    if not single:
        return []
    shown = ", ".join(sorted(single, key=natural_order)[:5])
    verb = "has" if len(single) == 1 else "have"
    return [f"{counted(len(single), 'class', 'classes')} {verb} a single training example ({shown})"]


def match_names(wanted: Sequence[str], given: Sequence[str]) -> list[int] | None:
    """For each wanted name its place among the given: as it is written, else in any case of letters.

    None where one is not there, or two would have the same place.

    >>> match_names(["no", "yes"], ["Yes", "No"]), match_names(["US", "us"], ["us", "US"]), match_names(["a"], ["b"])
    ([1, 0], [1, 0], None)
    """
    for spelled in (str, str.casefold):
        places = {spelled(name): place for place, name in reversed(list(enumerate(given)))}
        found = [places[spelled(name)] for name in wanted if spelled(name) in places]
        if len(set(found)) == len(wanted):
            return found
    return None
