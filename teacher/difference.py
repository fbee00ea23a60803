"""How two models' answers to a task differ, and what answering without any input reaches."""

from collections.abc import Sequence

import numpy as np

from common.bootstrap import Interval, bootstrap_difference, bootstrap_sums_difference
from teacher.tasks.base import Task


def difference(
    task: Task, model: Sequence[np.ndarray], other: Sequence[np.ndarray], references: np.ndarray
) -> Interval:
    """Paired-bootstrap interval of the main metric, model minus other."""
    first = [task.counts(values, references) for values in model]
    second = [task.counts(values, references) for values in other]
    if all(counts is not None for counts in (*first, *second)):
        return bootstrap_sums_difference(
            [counts for counts in first if counts is not None],
            [counts for counts in second if counts is not None],
            task.from_counts,
        )
    return bootstrap_difference(
        model, other, references, lambda p, r: task.metrics(p, r)[task.data.metric], resamples=1000
    )


def majority(task: Task, references: np.ndarray) -> float:
    """The main metric of always giving the same answer."""
    return task.metrics(task.constant_predictions(references), references)[task.data.metric]
