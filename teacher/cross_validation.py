"""How well a fine-tuning does on data that is too small to hold much of it out, and the model made from all of it."""

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.files import write_json
from common.progress import say
from teacher.data import TaskData
from teacher.folds import final_data, fold_data
from teacher.options import FinetuneOptions
from teacher.prepare import predict_logits
from teacher.ranks import from_main, ranks
from teacher.ready import Teacher
from teacher.tasks import task_for

SCORES = "folds.json"

Fit = Callable[[TaskData, FinetuneOptions, Path], Teacher]
"""The teacher of a task, fine-tuned with these options in this folder, or reused from there."""


@dataclass(frozen=True, kw_only=True)
class Fold:
    """What one fold came to."""

    n: int
    """Rows it was evaluated on."""
    metrics: Mapping[str, float]
    epochs: float
    """Until the weights that were kept."""


def cross_validated(
    data: TaskData, options: FinetuneOptions, folds: int, seed: int, *, fit: Fit, out: Path
) -> "Teacher":
    """The teacher in `out`, learned from all rows of "train" and "select", after a fine-tuning on each fold.

    The folds' models and their scores, in SCORES, are in a folder beside `out`, called like it with "-folds". Each
    fold is evaluated by a model that saw none of its texts, whose epochs were selected on another fold. The teacher
    has nothing left to select by: it trains for the folds' mean number of epochs and keeps its last weights.

    Args:
        data: the task.
        options: of every fine-tuning.
        folds: how many.
        seed: deals the rows out.
        fit: fine-tunes.
        out: the teacher's folder.

    Raises:
        UserError: folds that cannot be made, a model that is fine-tuned already, or a task whose answers are read with
            a threshold, since the last model has no rows left to find it on.
    """
    if found := task_for(data).settings:
        raise UserError(
            f"--folds: {data.name} needs rows that are not learned from to find {found[0]} on, and a model of all rows "
            "has none: leave --folds out"
        )
    beside = out.with_name(f"{out.name}-folds")
    results = [
        _fold(task, options, beside / f"fold-{number}", fit)
        for number, task in enumerate(fold_data(data, folds, seed), start=1)
    ]
    for line in summary_lines(results):
        say(line)
    if ranks().is_main_process:
        write_json(beside / SCORES, scores(results))
    epochs = statistics.fmean(fold.epochs for fold in results)
    say(f"all rows: {epochs:.2f} epochs, the mean of the folds")
    return fit(final_data(data), dataclasses.replace(options, teacher_epochs=epochs, teacher_patience=None), out)


def _fold(task: TaskData, options: FinetuneOptions, folder: Path, fit: Fit) -> Fold:
    say(f"{task.origins['evaluate']}:")
    teacher = fit(task, options, folder)
    found = teacher.outcome
    if found is None or found.selected_step is None:
        raise UserError(
            "--folds: the model is fine-tuned on this task already, which folds cannot undo: give an encoder"
        )
    prepared = teacher.prepared
    return Fold(
        n=len(prepared.splits["evaluate"]),
        metrics=from_main(lambda: prepared.metrics(predict_logits(teacher.model, prepared, "evaluate"), "evaluate")),
        epochs=found.epochs * found.selected_step / found.steps,
    )


def scores(results: Sequence[Fold]) -> dict[str, Any]:
    """Every fold, and of each metric the mean and the standard deviation over the folds (n - 1)."""
    values = {name: [fold.metrics[name] for fold in results] for name in results[0].metrics}
    return {
        "folds": [dataclasses.asdict(fold) for fold in results],
        "mean": {name: statistics.fmean(found) for name, found in values.items()},
        "deviation": {name: statistics.stdev(found) for name, found in values.items()},
    }


def summary_lines(results: Sequence[Fold]) -> list[str]:
    """A line for each metric."""
    found = scores(results)
    n = sum(fold.n for fold in results)
    return [
        f"{len(results)} folds, n = {n:,}: {name} {found['mean'][name]:.4f}, deviation {found['deviation'][name]:.4f}"
        for name in found["mean"]
    ]
