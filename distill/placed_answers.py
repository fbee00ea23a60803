"""A teacher's answers to the training rows, where a model that may cut texts otherwise has its rows and pieces."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from teacher.tasks.base import Encoded, Task

NONE = "learned from its own states alone, without the teacher's answers: the two cut the texts into other rows"


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What a teacher says of the training split."""

    logits: np.ndarray
    """(rows, outputs) or (rows, length, outputs), at the rows and pieces of `encoded`, as they come."""
    encoded: Encoded | None = None
    """The split as the teacher reads it; None: as the model that learns does."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """The same at the rows and pieces of the model that learns."""

    logits: Tensor | None
    """None where its rows are others."""
    carried: bool = False
    """NaN at pieces that the teacher says nothing of, see Task.carried."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the table should know."""
        return (NONE,) if self.logits is None else ()


def placed(task: Task, answers: Answers, own: Encoded) -> Placed:
    """The answers where `own`, the training split as the model that learns reads it, has its rows and pieces."""
    theirs = answers.encoded
    if theirs is None:
        return Placed(logits=torch.from_numpy(answers.logits))
    if task.carries:
        return Placed(logits=torch.from_numpy(task.carried(answers.logits, theirs, own)), carried=True)
    if np.array_equal(theirs.lengths, own.lengths) or not (task.per_position or _cut(theirs) or _cut(own)):
        return Placed(logits=torch.from_numpy(answers.logits))
    return Placed(logits=None)


def _cut(encoded: Encoded) -> bool:
    """Whether an example has several rows."""
    return len(encoded) != len(encoded.references)
