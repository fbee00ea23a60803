"""The loss terms that a stage can weigh: what each looks at, and how it is formed from two forward passes."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from distill import losses
from distill.committee import Voice
from distill.outputs import Features
from distill.soft import FORMS
from distill.spans import paired
from teacher.class_weights import weighted_loss
from teacher.prepare import to_length
from teacher.tasks.base import Task


@dataclass(frozen=True, kw_only=True)
class Link:
    """How student and teacher hang together at a step of a stage."""

    task: Task
    layers: tuple[int, ...]
    """The teacher layer of each student layer, counted from 1."""
    projection: nn.Module
    """Student width to teacher width: one map for the embeddings and all layers, or an nn.ModuleList with a map for
    each of them; the identity where the widths are equal."""
    temperature: float
    voices: tuple[Voice, ...] = (Voice(weight=1.0, temperature=None),)
    """Of the teachers whose answers are learned; of several, a teacher's logits are (b, teachers, outputs)."""
    relation_layer: int = 0
    """The teacher layer whose relations the student's last layer learns, counted from 1."""
    relation_heads: int = 1
    carried: bool = False
    """Teachers' answers were put at other pieces than they came from (Task.carried): NaN where there is none."""
    class_weights: Tensor | None = None
    """What an example counts in the loss on labels, by its label (see teacher.class_weights); None: all the same."""

    def label_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The task's loss, or the same with classes weighed; logits in fp32."""
        if self.class_weights is None:
            return self.task.loss(logits, labels)
        return weighted_loss(logits, labels, self.class_weights)

    def project(self, state: Tensor, layer: int) -> Tensor:
        """A student layer's states (0: the embedding output) in the teacher's width."""
        maps = self.projection
        return (maps[layer] if isinstance(maps, nn.ModuleList) else maps)(state)


Compute = Callable[[Features, Features, Mapping[str, Tensor], Link], Sequence[Tensor]]
"""The parts of a term, whose sum it is: one a layer or relation, or the whole."""


def _whole(layers: int) -> tuple[str, ...]:
    return ("",)


def _each(layers: int) -> tuple[str, ...]:
    return tuple(str(layer) for layer in range(1, layers + 1))


def _inner(layers: int) -> tuple[str, ...]:
    return _each(layers - 1)


def _relation(layers: int) -> tuple[str, ...]:
    return ("query", "key", "value")


@dataclass(frozen=True, kw_only=True)
class Term:
    """One loss term and what it needs of the two forward passes."""

    compute: Compute
    parts: Callable[[int], tuple[str, ...]] = _whole
    """From the number of student layers to the names of what `compute` gives."""
    teacher: bool = True
    hidden: bool = False
    """Looks at hidden states, projected to the teacher's width."""
    attention: bool = False
    """Looks at queries, keys and values."""
    mapped: bool = False
    """Compares layers as the layer map says."""
    over: Literal["examples", "entries", "pieces", "pairs"] = "examples"
    """What it is a mean over: the examples of a batch, what the task's loss counts of them (see Task.weights), their
    pieces, or all pairs of pieces of one example."""
    unit: Literal["examples", "spans", "pieces"] = "examples"
    """The smallest part of a text that student and teacher must cut alike; spans are what two tokenizers have in
    common."""
    rows: str | None = None
    """The (b,) bool entry of a batch that says which examples it counts; None, or no such entry: all."""

    def part_names(self, name: str, layers: int) -> tuple[str, ...]:
        """Names in the log of the parts of this term, called `name`; none where it has only one."""
        parts = self.parts(layers)
        return tuple(f"{name} {part}" for part in parts) if len(parts) > 1 else ()

    def counts(
        self,
        masks: Mapping[str, Tensor],
        lengths: np.ndarray | None,
        entries: np.ndarray | None,
        pairs: np.ndarray | None = None,
    ) -> np.ndarray | None:
        """(n,) how much of what this is a mean over each example has; None: all have the same.

        By its entry in `masks`, its length, its number of `entries` (see Task.weights), or of `pairs` of pieces (None:
        its length, squared).
        """
        if self.rows is not None and self.rows in masks:
            return masks[self.rows].numpy().astype(np.int64)
        if self.over == "entries":
            return entries
        if self.over == "examples" or lengths is None:
            return None
        if self.over == "pieces":
            return lengths
        return lengths**2 if pairs is None else pairs


def _hard(student: Features, teacher: Features, batch: Mapping[str, Tensor], link: Link) -> list[Tensor]:
    """The mean over the examples that have labels; exactly 0 where a batch of a mixture has none."""
    labeled = batch.get("labeled")
    if labeled is None or bool(labeled.all()):
        return [link.label_loss(student.logits.float(), batch["labels"])]
    if not bool(labeled.any()):
        return [student.logits.float()[labeled].sum()]
    return [link.label_loss(student.logits.float()[labeled], batch["labels"][labeled])]


def _soft(student: Features, teacher: Features, batch: Mapping[str, Tensor], link: Link) -> list[Tensor]:
    """The mean over the examples that the teacher answered; exactly 0 where a batch has none."""
    answered = batch.get("answered")
    if answered is not None and not bool(answered.all()):
        student = dataclasses.replace(student, logits=student.logits[answered])
        teacher = dataclasses.replace(teacher, logits=teacher.logits[answered])
        if not bool(answered.any()):
            return [student.logits.float().sum()]
    voices = teacher.logits.unbind(1) if len(link.voices) > 1 else (teacher.logits,)
    parts = [
        voice.weight * _soft_towards(student.logits, logits, voice.temperature or link.temperature, batch, link)
        for voice, logits in zip(link.voices, voices, strict=True)
    ]
    return [torch.stack(parts).sum()]


def _soft_towards(
    student: Tensor, teacher: Tensor, temperature: float, batch: Mapping[str, Tensor], link: Link
) -> Tensor:
    """What separates the student's outputs from one teacher's."""
    positions = link.task.soft_positions(batch)
    if link.task.per_position:
        teacher = to_length(teacher, student.shape[1])
    if link.carried:
        known = ~teacher.isnan().any(dim=-1)
        positions = known if positions is None else positions & known
        # Not left to the mask: the gradient of what it hides would be NaN all the same.
        teacher = teacher.nan_to_num()
    return FORMS[link.task.soft_form](student, teacher, temperature, positions)


def _embedding(student: Features, teacher: Features, batch: Mapping[str, Tensor], link: Link) -> list[Tensor]:
    return [losses.hidden_mse(*paired(link.project(student.hidden[0], 0), teacher.hidden[0], batch))]


def _hidden(student: Features, teacher: Features, batch: Mapping[str, Tensor], link: Link) -> list[Tensor]:
    return [
        losses.hidden_mse(*paired(link.project(student.hidden[own], own), teacher.hidden[layer], batch))
        for own, layer in enumerate(link.layers, start=1)
    ]


def _attention(student: Features, teacher: Features, batch: Mapping[str, Tensor], link: Link) -> list[Tensor]:
    valid = batch["attention_mask"].bool()
    pairs = enumerate(link.layers, start=1)
    return [losses.attention_mse(student.scores(own), teacher.scores(layer), valid) for own, layer in pairs]


def _attention_kl(student: Features, teacher: Features, batch: Mapping[str, Tensor], link: Link) -> list[Tensor]:
    valid = batch["attention_mask"].bool()
    pairs = enumerate(link.layers, start=1)
    return [losses.attention_kl(student.scores(own), teacher.scores(layer), valid) for own, layer in pairs]


def _relations(student: Features, teacher: Features, batch: Mapping[str, Tensor], link: Link) -> list[Tensor]:
    own, other = student.projected(len(student.attention)), teacher.projected(link.relation_layer)
    valid = batch["attention_mask"].bool()
    return [losses.relation_kl(own[name], other[name], link.relation_heads, valid) for name in own]


def _pkd(student: Features, teacher: Features, batch: Mapping[str, Tensor], link: Link) -> list[Tensor]:
    return [
        losses.pkd(link.project(student.hidden[own][:, 0], own), teacher.hidden[layer][:, 0])
        for own, layer in enumerate(link.layers[:-1], start=1)
    ]


def _cosine(student: Features, teacher: Features, batch: Mapping[str, Tensor], link: Link) -> list[Tensor]:
    last = len(student.hidden) - 1
    state = link.project(student.hidden[last], last)
    return [losses.hidden_cosine(*paired(state, teacher.hidden[-1], batch))]


TERMS: dict[str, Term] = {
    "hard": Term(compute=_hard, teacher=False, rows="labeled", over="entries"),
    "soft": Term(compute=_soft, rows="answered", over="entries"),
    "embedding": Term(compute=_embedding, over="pieces", unit="spans", hidden=True),
    "hidden": Term(compute=_hidden, parts=_each, over="pieces", unit="spans", hidden=True, mapped=True),
    "attention": Term(compute=_attention, parts=_each, over="pairs", unit="pieces", attention=True, mapped=True),
    "attention_kl": Term(compute=_attention_kl, parts=_each, over="pieces", unit="pieces", attention=True, mapped=True),
    "relations": Term(compute=_relations, parts=_relation, over="pieces", unit="pieces", attention=True),
    "pkd": Term(compute=_pkd, parts=_inner, hidden=True, mapped=True),
    "cosine": Term(compute=_cosine, over="pieces", unit="spans", hidden=True),
}


def is_part(name: str) -> bool:
    """Whether a name in the log is a part of a term, such as "hidden 3": it is in the term's sum already."""
    term, _, part = name.partition(" ")
    return bool(part) and term in TERMS
