"""One stage at work: a student, its projection, and the loss terms against a teacher."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from distill.layers import layer_map
from distill.outputs import Features, features
from distill.stages import Stage
from distill.terms import TERMS, Link
from teacher.attention import use_training_attention
from teacher.loop import Objective
from teacher.tasks.base import Task


class Distiller(Objective):
    """The objective of a stage: the student and the projection are trained, the teacher stays as it is.

    Args:
        student: model with a head for the task.
        teacher: None where a stage has labels alone, or where `teacher_logits` suffices.
        stage: losses, layer map and temperature.
        task: of the student's head.
        projection: student width to teacher width.
        teacher_logits: (n, outputs), the teacher's answers to the training examples, looked up by `batch["index"]`.
    """

    def __init__(
        self,
        student: PreTrainedModel,
        teacher: PreTrainedModel | None,
        stage: Stage,
        task: Task,
        *,
        projection: nn.Module,
        teacher_logits: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.student, self.projection = student, projection
        self.weights = dict(stage.losses)
        self._terms = {name: TERMS[name] for name in stage.losses}
        self._teacher_logits = teacher_logits
        # In a tuple, so that torch does not register it: nothing of the teacher may be trained, clipped or saved.
        self._teacher = (teacher,)
        layers = _layers(stage, student, teacher) if self._need_layers() else ()
        self._link = Link(task=task, layers=layers, projection=projection, temperature=stage.temperature)
        use_training_attention(student)
        if teacher is not None:
            use_training_attention(teacher)
            teacher.eval()
            teacher.requires_grad_(False)

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        teacher = self._teacher_features(batch)
        student = features(self.student, batch, hidden=self._needs("hidden"), attention=self._needs("attention"))
        return {name: term.compute(student, teacher, batch, self._link) for name, term in self._terms.items()}

    def _teacher_features(self, batch: dict[str, Tensor]) -> Features:
        if not self._needs("teacher"):
            return Features(logits=torch.empty(0), hidden=(), attention=())
        if not self._need_layers() and self._teacher_logits is not None:
            return Features(logits=self._teacher_logits[batch["index"]], hidden=(), attention=())
        teacher = self._teacher[0]
        if teacher is None or teacher.training:
            raise RuntimeError("the teacher must be there and in evaluation mode at every step")
        # no_grad and not inference_mode: the losses keep the teacher's tensors for the student's backward pass.
        with torch.no_grad():
            return features(teacher, batch, hidden=self._needs("hidden"), attention=self._needs("attention"))

    def _needs(self, what: str) -> bool:
        return any(getattr(term, what) for term in self._terms.values())

    def _need_layers(self) -> bool:
        return self._needs("hidden") or self._needs("attention")


@contextlib.contextmanager
def without_dropout(model: nn.Module) -> Iterator[None]:
    """No unit of `model` is dropped within the block; its configuration and its later training keep their dropout."""
    parts = [(part, part.p) for part in model.modules() if isinstance(part, nn.Dropout)]
    for part, _ in parts:
        part.p = 0.0
    try:
        yield
    finally:
        for part, share in parts:
            part.p = share


def _layers(stage: Stage, student: PreTrainedModel, teacher: PreTrainedModel | None) -> tuple[int, ...]:
    if teacher is None:
        return ()
    return layer_map(stage.layers, student.config.num_hidden_layers, teacher.config.num_hidden_layers)


def width(model: PreTrainedModel) -> int:
    """Width of the hidden states."""
    return int(model.config.hidden_size)


@torch.no_grad()
def fitted_projection(
    student: PreTrainedModel, teacher: PreTrainedModel, batches: list[dict[str, Tensor]], layers: tuple[int, ...]
) -> nn.Module:
    """The linear map with bias that brings the student's states nearest to the teacher's, by ridge least squares.

    Over real tokens of all mapped layers and the embeddings of `batches`. A projection that starts from noise has to be
    learned at the student's small rate before its losses mean anything; this one fits from the first step. The identity
    where the widths are equal.
    """
    if width(student) == width(teacher):
        return nn.Identity()
    inputs, targets = [], []
    was_training = student.training
    student.eval()
    for batch in batches:
        valid = batch["attention_mask"].bool()
        own = features(student, batch, hidden=True, attention=False).hidden
        others = features(teacher, batch, hidden=True, attention=False).hidden
        for state, layer in zip(own, (0, *layers), strict=True):
            inputs.append(state[valid].double())
            targets.append(others[layer][valid].double())
    student.train(was_training)
    return ridge_map(torch.cat(inputs), torch.cat(targets))


@torch.no_grad()
def ridge_map(x: Tensor, y: Tensor) -> nn.Linear:
    """The linear map with bias from rows of `x` to rows of `y` (both double) by ridge least squares."""
    projection = nn.Linear(x.shape[1], y.shape[1])
    x = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
    gram = x.T @ x + 1e-3 * len(x) * torch.eye(x.shape[1], dtype=x.dtype)
    solution = torch.linalg.solve(gram, x.T @ y)
    projection.weight.copy_(solution[:-1].T)
    projection.bias.copy_(solution[-1])
    return projection
