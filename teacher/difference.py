"""How two models' answers to a task differ, and what answering without any input reaches."""

from collections.abc import Sequence

import numpy as np

from common.bootstrap import Interval, bootstrap_difference, bootstrap_mean_difference
from teacher.tasks.base import Task


def difference(
    task: Task, model: Sequence[np.ndarray], other: Sequence[np.ndarray], references: np.ndarray
) -> Interval:
    """Paired-bootstrap interval of the main metric, model minus other."""
    if task.data.metric == "accuracy":
        return bootstrap_mean_difference(
            [values == references for values in model], [values == references for values in other]
        )
    return bootstrap_difference(
        model, other, references, lambda p, r: task.metrics(p, r)[task.data.metric], resamples=1000
    )


def majority(task: Task, references: np.ndarray) -> float:
    """The main metric of always giving the same answer."""
    constant = np.full(len(references), task.constant_prediction(), dtype=references.dtype)
    return task.metrics(constant, references)[task.data.metric]
