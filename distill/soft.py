"""How a student learns from a teacher's outputs, by their form: classes, values, yes or no, spans."""

from collections.abc import Callable

import torch
from torch import Tensor

from distill import losses

SoftLoss = Callable[[Tensor, Tensor, float, Tensor | None], Tensor]
"""From the student's and the teacher's outputs, the temperature, and which positions count (None: all rows)."""


def _values(student: Tensor, teacher: Tensor, temperature: float, valid: Tensor | None) -> Tensor:
    return losses.soft_values(student, teacher)


def _spans(student: Tensor, teacher: Tensor, temperature: float, valid: Tensor | None) -> Tensor:
    """The mean of start and end, each a distribution over the positions (b, l) that count."""
    if valid is None:
        raise ValueError("spans are distributions over positions: which count must be said")
    parts = [
        losses.soft_positions(student[..., place], teacher[..., place], temperature, valid)
        for place in range(student.shape[-1])
    ]
    return torch.stack(parts).mean()


FORMS: dict[str, SoftLoss] = {
    "classes": losses.soft_logits,
    "values": _values,
    "binary": losses.soft_binary,
    "spans": _spans,
}
"""A task's `soft_form` to the loss: a distribution over classes; numbers; several yes or no; a span's two ends."""
