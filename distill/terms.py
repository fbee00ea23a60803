"""The loss terms that a stage can weigh: what each looks at, and how it is formed from two forward passes."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from distill import losses
from distill.outputs import Features
from teacher.tasks.base import Task


@dataclass(frozen=True, kw_only=True)
class Link:
    """How student and teacher hang together in a stage."""

    task: Task
    layers: tuple[int, ...]
    """The teacher layer of each student layer, counted from 1."""
    projection: nn.Module
    """Student width to teacher width, for every layer and the embeddings alike; the identity where the widths are
    equal."""
    temperature: float


Compute = Callable[[Features, Features, Mapping[str, Tensor], Link], Tensor]


@dataclass(frozen=True, kw_only=True)
class Term:
    """One loss term and what it needs of the two forward passes."""

    compute: Compute
    teacher: bool = True
    hidden: bool = False
    attention: bool = False


def _hard(student: Features, teacher: Features, batch: Mapping[str, Tensor], link: Link) -> Tensor:
    """The mean over the examples that have labels; exactly 0 where a batch of a mixture has none."""
    labeled = batch.get("labeled")
    if labeled is None or bool(labeled.all()):
        return link.task.loss(student.logits.float(), batch["labels"])
    if not bool(labeled.any()):
        return student.logits.float()[labeled].sum()
    return link.task.loss(student.logits.float()[labeled], batch["labels"][labeled])


def _soft(student: Features, teacher: Features, batch: Mapping[str, Tensor], link: Link) -> Tensor:
    """The mean over the examples that the teacher answered; exactly 0 where a batch has none."""
    answered = batch.get("answered")
    if answered is not None and not bool(answered.all()):
        student = dataclasses.replace(student, logits=student.logits[answered])
        teacher = dataclasses.replace(teacher, logits=teacher.logits[answered])
        if not bool(answered.any()):
            return student.logits.float().sum()
    if link.task.soft_form == "values":
        return losses.soft_values(student.logits, teacher.logits)
    return losses.soft_logits(student.logits, teacher.logits, link.temperature, link.task.soft_positions(batch))


def _embedding(student: Features, teacher: Features, batch: Mapping[str, Tensor], link: Link) -> Tensor:
    return losses.hidden_mse(link.projection(student.hidden[0]), teacher.hidden[0], batch["attention_mask"].bool())


def _hidden(student: Features, teacher: Features, batch: Mapping[str, Tensor], link: Link) -> Tensor:
    valid = batch["attention_mask"].bool()
    pairs = zip(student.hidden[1:], link.layers, strict=True)
    return torch.stack(
        [losses.hidden_mse(link.projection(state), teacher.hidden[layer], valid) for state, layer in pairs]
    ).sum()


def _attention(student: Features, teacher: Features, batch: Mapping[str, Tensor], link: Link) -> Tensor:
    valid = batch["attention_mask"].bool()
    pairs = enumerate(link.layers, start=1)
    return torch.stack(
        [losses.attention_mse(student.scores(own), teacher.scores(layer), valid) for own, layer in pairs]
    ).sum()


def _cosine(student: Features, teacher: Features, batch: Mapping[str, Tensor], link: Link) -> Tensor:
    state = link.projection(student.hidden[-1])
    return losses.hidden_cosine(state, teacher.hidden[-1], batch["attention_mask"].bool())


TERMS: dict[str, Term] = {
    "hard": Term(compute=_hard, teacher=False),
    "soft": Term(compute=_soft),
    "embedding": Term(compute=_embedding, hidden=True),
    "hidden": Term(compute=_hidden, hidden=True),
    "attention": Term(compute=_attention, attention=True),
    "cosine": Term(compute=_cosine, hidden=True),
}
