"""Rare classes count more: the loss of each example, word's tag or decision on a label, times a weight of its class."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from common.errors import UserError
from teacher.prepare import Prepared
from teacher.tasks.base import Task

IGNORED = -100
"""The label of what has none, as in torch's cross-entropy."""


def balanced(labels: np.ndarray, classes: int) -> Tensor:
    """(classes,) weights n / (k n_c), with which all k classes that occur weigh the same in n examples.

    That is scikit-learn's "balanced" (King and Zeng 2001, Logistic Regression in Rare Events Data). A class that does
    not occur gets 1.
    """
    counts = np.bincount(labels, minlength=classes)
    weights = len(labels) / (np.count_nonzero(counts) * np.maximum(counts, 1))
    return torch.from_numpy(np.where(counts > 0, weights, 1.0)).float()


def balanced_labels(labels: np.ndarray) -> Tensor:
    """(2, k) weights of k labels where they are not given and where they are, from (n, k) of 0 and 1.

    Each label is a question with two answers that weigh the same in n examples, as `balanced` has it.
    """
    return torch.stack([balanced(column, 2) for column in labels.astype(np.int64).T], dim=1)


def check_class_weights(kind: str, task: Task | type[Task], *, option: str = "--teacher-class-weights") -> None:
    """Raise UserError, which names `option`, where the task has no classes to weigh."""
    if kind != "none" and not task.weighable:
        raise UserError(
            f"{option} {kind} is for tasks with classes or labels of texts, or of words, and this one is of the kind "
            f"{task.kind}: leave it out"
        )


def class_weights(kind: str, prepared: Prepared) -> Tensor | None:
    """The weights of a task's classes, or labels, by its training rows; None for the kind "none"."""
    if kind == "none":
        return None
    labels = prepared.task.weighed_labels(prepared.splits["train"])
    if labels.ndim == 2:
        return balanced_labels(labels)
    return balanced(labels, len(prepared.task.data.labels))


def weighted_loss(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Cross entropy times the weight of each class, a mean over what has one; of several labels over all of them.

    Not torch's mean, which divides by the weights of the batch: parts of a batch could not be added then.

    Args:
        logits: (..., classes) in fp32, or (n, labels).
        labels: (...) class indices, IGNORED where there is none; or (n, labels) of 0 and 1.
        weights: (classes,) as of `balanced`, or (2, labels) as of `balanced_labels`.
    """
    if weights.ndim == 2:
        each = torch.where(labels > 0.5, weights[1], weights[0])
        return functional.binary_cross_entropy_with_logits(logits, labels.float(), weight=each)
    total = functional.cross_entropy(
        logits.flatten(0, -2), labels.flatten(), weight=weights, ignore_index=IGNORED, reduction="sum"
    )
    return total / (labels != IGNORED).sum().clamp(min=1)
