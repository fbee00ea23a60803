"""Rare classes count more: the loss of each example times a weight of its class."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from common.errors import UserError
from teacher.prepare import Prepared
from teacher.tasks.base import Task


def balanced(labels: np.ndarray, classes: int) -> Tensor:
    """(classes,) weights n / (k n_c), with which all k classes that occur weigh the same in n examples.

    That is scikit-learn's "balanced" (King and Zeng 2001, Logistic Regression in Rare Events Data). A class that does
    not occur gets 1.
    """
    counts = np.bincount(labels, minlength=classes)
    weights = len(labels) / (np.count_nonzero(counts) * np.maximum(counts, 1))
    return torch.from_numpy(np.where(counts > 0, weights, 1.0)).float()


def check_class_weights(kind: str, task: Task) -> None:
    """Raise UserError where the task has no classes to weigh."""
    if kind != "none" and task.kind != "classification":
        raise UserError(
            f"--teacher-class-weights {kind} is for tasks with one class a text, and {task.data.name} is a "
            f"{task.kind}: leave it out"
        )


def class_weights(kind: str, prepared: Prepared) -> Tensor | None:
    """The weights of a task's classes by its training rows; None for the kind "none"."""
    if kind == "none":
        return None
    return balanced(prepared.splits["train"].labels, len(prepared.task.data.labels))


def weighted_loss(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Cross entropy times the weight of each label, a mean over examples. logits (batch, classes) in fp32.

    Not torch's mean, which divides by the weights of the batch: parts of a batch could not be added then.
    """
    return functional.cross_entropy(logits, labels, weight=weights, reduction="sum") / len(labels)
