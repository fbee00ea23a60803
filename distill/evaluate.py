"""How good each model is on the evaluation split, and how sure that is."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from common.bootstrap import mean_and_spread
from reports.record import ClassRow, Quality
from reports.statistics import mcnemar_p, retained
from teacher.difference import difference
from teacher.tasks.base import Task


def quality(
    task: Task,
    predictions: Mapping[int, np.ndarray],
    references: np.ndarray,
    *,
    teacher: np.ndarray | None,
    twin: Mapping[int, np.ndarray] | None = None,
) -> Quality:
    """Quality of one model.

    Args:
        task: gives the metrics.
        predictions: seed to predictions (n,) on the evaluation split.
        references: its labels (n,).
        teacher: the teacher's predictions; None for the teacher itself.
        twin: seed to predictions of the same student without distillation, where there is one.
    """
    metric = task.data.metric
    by_seed = {seed: task.metrics(values, references) for seed, values in predictions.items()}
    value, spread = mean_and_spread([scores[metric] for scores in by_seed.values()])
    first = next(iter(predictions.values()))
    names = next(iter(by_seed.values()))
    return Quality(
        split="evaluate",
        n=len(references),
        metric=metric,
        value=value,
        spread=spread,
        by_seed={str(seed): scores[metric] for seed, scores in by_seed.items()},
        metrics={name: float(np.mean([scores[name] for scores in by_seed.values()])) for name in names},
        retained=None if teacher is None else retained(value, task.metrics(teacher, references)[metric]),
        against_teacher=None
        if teacher is None
        else difference(task, list(predictions.values()), [teacher], references),
        against_twin=None
        if twin is None
        else difference(task, list(predictions.values()), list(twin.values()), references),
        mcnemar_p=None if teacher is None else _mcnemar(task, first, teacher, references),
        per_class=tuple(ClassRow(**dataclasses.asdict(row)) for row in task.per_label(first, references)),
    )


def _mcnemar(task: Task, model: np.ndarray, teacher: np.ndarray, references: np.ndarray) -> float | None:
    """None where answers are not right or wrong."""
    right, other = (task.right(predictions, references) for predictions in (model, teacher))
    return None if right is None or other is None else mcnemar_p(right, other)
