"""One stage at work: a student, its projection, and the loss terms against a teacher."""

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from distill.cache import StoredFeatures
from distill.committee import Voice
from distill.fit import relation_heads
from distill.gradients import due, gradient_norms
from distill.journal import Journal, teacher_layer_of
from distill.layers import layer_map, relation_layer
from distill.nearest import NearestLayers
from distill.outputs import Features, features
from distill.projections import width
from distill.schedules import progress_of, value_at
from distill.spans import teachers_view
from distill.stages import Stage
from distill.terms import TERMS, Link
from teacher.attention import use_training_attention
from teacher.dropout import dropping
from teacher.objective import Objective
from teacher.step import current_lane
from teacher.tasks.base import Task

ONE = (Voice(weight=1.0, temperature=None),)


class Distiller(Objective):
    """The objective of a stage: the student and the projection are trained, the teacher stays as it is.

    Args:
        student: model with a head for the task.
        teacher: None where a stage has labels alone, or where `teacher_logits` suffices.
        stage: losses, layer map and temperature.
        task: of the student's head.
        projection: student width to teacher width, as in Link.
        teacher_logits: (n, outputs), the teacher's answers to the training examples, looked up by `batch["index"]`; of
            several teachers (n, teachers, outputs).
        voices: of these teachers.
        labeled: (n,) bool, which of them have labels; None: all.
        answered: (n,) bool, which of them the teacher has answers to; None: all.
        lengths: (n,) pieces of each of them, or spans where two tokenizers read them; None: all alike.
        entries: (n,) what the task's losses are means over of each of them; None: one each.
        carried: answers of teachers were put at other pieces, see Link; the soft loss is then a mean over the pieces
            that have one.
        pairs: (n,) pairs of pieces of each that see each other; None: all of its pieces.
        stored: the teacher's insides on the training examples: it is then not run.
        sample: batches that the layer map "nearest" is found on.
        class_weights: as in Link.
        journal: where norms of every term's gradient, and the maps found, are written down.
        norms: whether gradient norms are; where a batch is cut in parts, of its first one.
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
        voices: tuple[Voice, ...] = ONE,
        labeled: Tensor | None = None,
        answered: Tensor | None = None,
        lengths: np.ndarray | None = None,
        entries: np.ndarray | None = None,
        pairs: np.ndarray | None = None,
        carried: bool = False,
        stored: StoredFeatures | None = None,
        sample: Sequence[Mapping[str, Tensor]] = (),
        class_weights: Tensor | None = None,
        journal: Journal | None = None,
        norms: bool = False,
    ) -> None:
        super().__init__()
        self.student, self.projection = student, projection
        self._stage, self._journal, self._norms = stage, journal, norms
        self._norms_due = False
        self._terms = {name: TERMS[name] for name in stage.losses}
        self._parts = {
            name: term.part_names(name, student.config.num_hidden_layers) for name, term in self._terms.items()
        }
        # Parts are in the log, not in the loss: their term is.
        self.weights = dict.fromkeys((part for parts in self._parts.values() for part in parts), 0.0)
        self.weights |= {name: value_at(weight, 0.0) for name, weight in stage.losses.items()}
        self._teacher_logits, self._stored = teacher_logits, stored
        self._masks = {name: mask for name, mask in (("labeled", labeled), ("answered", answered)) if mask is not None}
        self._counts = {name: term.counts(self._masks, lengths, entries, pairs) for name, term in self._terms.items()}
        # In a tuple, so that torch does not register it: nothing of the teacher may be trained, clipped or saved.
        self._teacher = (teacher,)
        link = _link(stage, student, teacher, task, projection)
        self._link = dataclasses.replace(link, voices=voices, class_weights=class_weights, carried=carried)
        if carried and "soft" in self._counts and teacher_logits is not None:
            self._counts["soft"] = _answers(teacher_logits)
        self.nearest = (
            NearestLayers(self._link.layers, sample, stage.refresh)
            if stage.layers == "nearest" and self._link.layers
            else None
        )
        use_training_attention(student)
        if teacher is not None:
            use_training_attention(teacher)
            teacher.eval()
            teacher.requires_grad_(False)

    def follow(self, device: torch.device) -> None:
        """The teacher, its stored answers and insides, and the masks of examples go along."""
        if self._teacher[0] is not None:
            self._teacher[0].to(device)  # type: ignore[arg-type]
        if self._teacher_logits is not None:
            self._teacher_logits = self._teacher_logits.to(device)
        if self._stored is not None:
            self._stored.device = device
        self._masks = {name: mask.to(device) for name, mask in self._masks.items()}
        if self._link.class_weights is not None:
            self._link = dataclasses.replace(self._link, class_weights=self._link.class_weights.to(device))

    def at(self, step: int, total: int) -> None:
        """Weights, temperature and layer map of the step."""
        if self._journal is not None:
            self._journal.at(step)
        progress = progress_of(step, total)
        self.weights |= {name: value_at(weight, progress) for name, weight in self._stage.losses.items()}
        self._link = dataclasses.replace(
            self._link, temperature=value_at(self._stage.temperature, progress), layers=self._layers_at(step)
        )
        self._norms_due = self._norms and due(step, total)

    def _layers_at(self, step: int) -> tuple[int, ...]:
        teacher = self._teacher[0]
        if self.nearest is None or teacher is None:
            return self._link.layers
        looked = self.nearest.at(step, self.student, teacher, self._link.project)
        layers = self.nearest.current()
        if looked and self._journal is not None:
            self._journal.write({teacher_layer_of(own): float(layer) for own, layer in enumerate(layers, start=1)})
        return layers

    def shares(self, part: np.ndarray, batch: np.ndarray) -> dict[str, float]:
        """By what a term is a mean over, where that is not the examples, all of them."""
        found: dict[str, float] = {}
        for name, counts in self._counts.items():
            if counts is not None:
                share = int(counts[part].sum()) / max(1, int(counts[batch].sum()))
                found |= dict.fromkeys((name, *self._parts[name]), share)
        return found

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """The terms, and before them their parts; called by several threads at once."""
        teacher = self._teacher_features(batch)
        batch = batch | {name: mask[batch["index"]] for name, mask in self._masks.items()}
        hidden, attention = self._stage.needs("hidden"), self._stage.needs("attention")
        student = features(self.student, batch, hidden=hidden, attention=attention)
        log: dict[str, Tensor] = {}
        terms: dict[str, Tensor] = {}
        for name, term in self._terms.items():
            values = term.compute(student, teacher, batch, self._link)
            if self._parts[name]:
                log |= {part: value.detach() for part, value in zip(self._parts[name], values, strict=True)}
            terms[name] = values[0] if len(values) == 1 else torch.stack(list(values)).sum()
        if self._norms_due and self._journal is not None and current_lane() == 0:
            trained = [parameter for parameter in self.student.parameters() if parameter.requires_grad]
            self._journal.write(gradient_norms(terms, trained))
            self._norms_due = False
        # Parts first: a number that is not finite is then reported with its layer.
        return log | terms

    def _teacher_features(self, batch: dict[str, Tensor]) -> Features:
        stage = self._stage
        if not stage.needs("teacher"):
            return Features(logits=torch.empty(0), hidden=(), attention=())
        view = teachers_view(batch)
        logits = None if self._teacher_logits is None else self._teacher_logits[batch["index"]]
        if self._stored is not None:
            kept = torch.empty(0) if logits is None else logits
            return self._stored.features(batch["index"].tolist(), view["input_ids"].shape[1], kept)
        if not stage.layered and logits is not None:
            return Features(logits=logits, hidden=(), attention=())
        teacher = self._teacher[0]
        if teacher is None or teacher.training:
            raise RuntimeError("the teacher must be there and in evaluation mode at every step")
        # no_grad and not inference_mode: the losses keep the teacher's tensors for the student's backward pass.
        with torch.no_grad():
            seen = features(teacher, view, hidden=stage.needs("hidden"), attention=stage.needs("attention"))
        return seen if logits is None else dataclasses.replace(seen, logits=logits)


def _answers(logits: Tensor) -> np.ndarray:
    """(n,) positions of each example that have an answer, all teachers alike; logits (n, ..., length, outputs)."""
    known = ~logits.isnan().any(dim=-1)
    return known.reshape(len(known), -1, known.shape[-1])[:, 0].sum(dim=-1).numpy()


def _link(
    stage: Stage, student: PreTrainedModel, teacher: PreTrainedModel | None, task: Task, projection: nn.Module
) -> Link:
    """How the two hang together at the first step."""
    temperature = value_at(stage.temperature, 0.0)
    if teacher is None:
        return Link(task=task, layers=(), projection=projection, temperature=temperature)
    layers = (student.config.num_hidden_layers, teacher.config.num_hidden_layers)
    return Link(
        task=task,
        layers=layer_map(stage.layers, *layers) if stage.needs("mapped") else (),
        projection=projection,
        temperature=temperature,
        relation_layer=relation_layer(layers[1]),
        relation_heads=relation_heads(width(student), width(teacher), stage.relation_heads),
    )


def without_dropout(model: nn.Module) -> contextlib.AbstractContextManager[None]:
    """No unit of `model` is dropped within the block; its configuration and its later training keep their dropout."""
    return dropping(model, 0.0)
