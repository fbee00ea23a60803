"""Students without a task: an encoder, alone or with a head that predicts masked pieces."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import AlbertForMaskedLM, BertForMaskedLM, DistilBertForMaskedLM, PreTrainedModel

from students.activations import Activations
from students.build import build_student, encoder
from students.distilbert import copy_masked_head
from students.presets import StudentConfig
from students.tinybert import prune_masked_head
from students.weights import randomise


@dataclass(frozen=True, kw_only=True)
class MaskedHead:
    """A family's model with a head for masked pieces, whose output table is tied to the input table."""

    model: type[PreTrainedModel]
    logits: Callable[[Any, Tensor], Tensor]
    """Model and last hidden states (..., d) to logits (..., vocabulary)."""
    start: Callable[[Any, PreTrainedModel, StudentConfig, Activations | None], None] | None
    """The head from a teacher's; None: it cannot be taken over, and starts random."""


def _bert_logits(model: Any, states: Tensor) -> Tensor:
    return model.cls.predictions(states)


def _distilbert_logits(model: Any, states: Tensor) -> Tensor:
    return model.vocab_projector(model.vocab_layer_norm(model.activation(model.vocab_transform(states))))


def _albert_logits(model: Any, states: Tensor) -> Tensor:
    return model.predictions(states)


HEADS = {
    "bert": MaskedHead(model=BertForMaskedLM, logits=_bert_logits, start=prune_masked_head),
    "distilbert": MaskedHead(model=DistilBertForMaskedLM, logits=_distilbert_logits, start=copy_masked_head),
    "albert": MaskedHead(model=AlbertForMaskedLM, logits=_albert_logits, start=None),
}
"""Keys are those of students.presets.STARTS."""


def masked_logits(model: PreTrainedModel, states: Tensor) -> Tensor:
    """Logits over the vocabulary for last hidden states (..., d) of a model with such a head, teachers included.

    Only where they are wanted: the product with the table of pieces costs more than a small student's layers.
    """
    return HEADS[model.config.model_type].logits(model, states)


def head_from_teacher(config: StudentConfig) -> bool:
    """Whether the student's masked head can be taken over from a teacher that has one."""
    return config.start != "random" and HEADS[config.family].start is not None


def build_encoder(
    config: StudentConfig,
    teacher: PreTrainedModel,
    *,
    seed: int,
    activations: Activations | None = None,
    masked: bool,
    teacher_masked: bool,
) -> PreTrainedModel:
    """The student that `build_student` makes, without a task's head.

    Args:
        config: of the student.
        teacher: BERT; with `cls.predictions` where `teacher_masked`.
        seed: of random weights.
        activations: of the teacher.
        masked: give it a head for masked pieces; it is the teacher's where `head_from_teacher` and `teacher_masked`.
        teacher_masked: the teacher's head is a trained one.

    A pooler stays only where it was made from the teacher's: general text does not train it.
    """
    body: Any = encoder(build_student(config, teacher, seed=seed, activations=activations))
    if hasattr(body, "pooler") and (config.start == "random" or getattr(teacher.base_model, "pooler", None) is None):
        body.pooler = None
    if not masked:
        return body
    head = HEADS[config.family]
    with torch.random.fork_rng(devices=[]):
        model: Any = head.model(body.config)
    randomise(model, seed=seed, std=teacher.config.initializer_range)
    setattr(model, model.base_model_prefix, body)
    model.tie_weights()
    if teacher_masked and head.start is not None and config.start != "random":
        with torch.no_grad():
            head.start(model, teacher, config, activations)
    return model.eval()
