"""Rows dealt into folds: classes as even as they can be, and what is about one thing in one."""

import dataclasses
import hashlib
from collections.abc import Sequence

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold

from common.errors import UserError
from teacher.data import Example, TaskData
from teacher.labels import SEVERAL, TEXTS
from teacher.splits import same

FEWEST = 3
"""One fold evaluates, one selects, and at least one is learned from."""

BINS = 5
"""Numbers are dealt out as classes of so many ranges with equally many rows."""


def fold_data(data: TaskData, folds: int, seed: int) -> list[TaskData]:
    """A task for each fold: evaluated on it, its checkpoints selected on the next one, learned from all others.

    The rows are those of "train" and "select"; "evaluate" is left alone.

    Raises:
        UserError: fewer than FEWEST folds, or more than there are different texts or groups of rows.
    """
    rows = all_rows(data)
    groups = np.unique([row.group or repr(same(row.text, row.pair)) for row in rows], return_inverse=True)[1]
    different = int(groups.max()) + 1
    if not FEWEST <= folds <= different:
        what = "different texts" if rows[0].group is None else "groups of rows about one thing"
        raise UserError(f"--folds {folds}: expected {FEWEST} to {different}, the number of {what}")
    dealer = StratifiedGroupKFold(n_splits=folds, shuffle=True, random_state=seed)
    strata = _strata(data, rows)
    if np.bincount(strata).max() < folds:
        # None has a row for each fold: the dealer refuses to part such classes evenly.
        strata = np.zeros(len(rows), dtype=np.int64)
    places = [found for _, found in dealer.split(np.zeros(len(rows)), strata, groups)]
    if empty := [number for number, found in enumerate(places, start=1) if not len(found)]:
        raise UserError(
            f"--folds {folds}: fold {empty[0]} would get no rows, since what is about one thing stays together: take "
            "fewer"
        )
    return [_one(data, rows, places, number) for number in range(folds)]


def final_data(data: TaskData) -> TaskData:
    """The task of the model that is kept: learned from all that was dealt out, with nothing left to select by."""
    splits = {"train": all_rows(data), "evaluate": data.splits["evaluate"]}
    origins = {"train": f"{data.origins['train']}; {data.origins['select']}", "evaluate": data.origins["evaluate"]}
    return _task(data, splits, origins, "all")


def all_rows(data: TaskData) -> tuple[Example, ...]:
    """What is dealt out."""
    return (*data.splits["train"], *data.splits["select"])


def _strata(data: TaskData, rows: Sequence[Example]) -> np.ndarray:
    """(n,) classes, ranges of numbers, or how many labels a row has; all the same where rows have tags or answers."""
    if data.kind in SEVERAL:
        return np.array([len(set(row.label)) for row in rows])
    if data.kind in TEXTS:
        return np.zeros(len(rows), dtype=np.int64)
    labels = np.array([row.label for row in rows])
    if data.labels:
        return labels.astype(np.int64)
    ranks = np.empty(len(labels), dtype=np.int64)
    ranks[np.argsort(labels, kind="stable")] = np.arange(len(labels))
    return ranks * BINS // len(labels)


def _one(data: TaskData, rows: Sequence[Example], places: Sequence[np.ndarray], number: int) -> TaskData:
    roles = {number: "evaluate", (number + 1) % len(places): "select"}
    held: dict[str, list[int]] = {"train": [], "select": [], "evaluate": []}
    for fold, found in enumerate(places):
        held[roles.get(fold, "train")] += found.tolist()
    splits = {split: tuple(rows[index] for index in sorted(indices)) for split, indices in held.items()}
    name = f"fold {number + 1} of {len(places)}"
    return _task(data, splits, dict.fromkeys(splits, name), name)


def _task(data: TaskData, splits: dict[str, tuple[Example, ...]], origins: dict[str, str], name: str) -> TaskData:
    digest = hashlib.sha256(repr((data.fingerprint, name)).encode())
    digest.update(repr([[(row.text, row.pair, row.label) for row in rows] for rows in splits.values()]).encode())
    return dataclasses.replace(data, splits=splits, origins=origins, fingerprint=digest.hexdigest()[:16])
