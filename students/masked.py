"""Students without a task: an encoder, alone or with a head that predicts masked pieces."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AlbertForMaskedLM, BertForMaskedLM, DistilBertForMaskedLM, PreTrainedModel

from students.activations import Activations
from students.build import build_student, encoder
from students.distilbert import copy_masked_head
from students.mapping import as_bert
from students.presets import LAYERLESS, StudentConfig
from students.tinybert import prune_masked_head
from students.weights import randomise


@dataclass(frozen=True, kw_only=True)
class MaskedHead:
    """A family's model with a head for masked pieces, whose output table is tied to the input table."""

    model: type[PreTrainedModel]
    start: Callable[[Any, PreTrainedModel, StudentConfig, Activations | None], None] | None
    """The head from a teacher's; None: it cannot be taken over, and starts random."""


HEADS = {
    "bert": MaskedHead(model=BertForMaskedLM, start=prune_masked_head),
    "distilbert": MaskedHead(model=DistilBertForMaskedLM, start=copy_masked_head),
    "albert": MaskedHead(model=AlbertForMaskedLM, start=None),
}
"""Keys are those of students.presets.STARTS."""


def head_from_teacher(config: StudentConfig) -> bool:
    """Whether the student's masked head can be taken over from a teacher that has one."""
    return config.start not in LAYERLESS and HEADS[config.family].start is not None


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
        teacher: with a head for masked pieces where `teacher_masked`.
        seed: of random weights.
        activations: of the teacher.
        masked: give it a head for masked pieces; it is the teacher's where `head_from_teacher` and `teacher_masked`.
        teacher_masked: the teacher's head is a trained one.

    A pooler stays only where it was made from the teacher's: general text does not train it.
    """
    body: Any = encoder(build_student(config, teacher, seed=seed, activations=activations))
    layered = config.start not in LAYERLESS
    bert: Any = as_bert(teacher) if layered else None
    if hasattr(body, "pooler") and (not layered or getattr(bert.base_model, "pooler", None) is None):
        body.pooler = None
    if not masked:
        return body
    head = HEADS[config.family]
    with torch.random.fork_rng(devices=[]):
        model: Any = head.model(body.config)
    randomise(model, seed=seed, std=body.config.initializer_range)
    setattr(model, model.base_model_prefix, body)
    model.tie_weights()
    if teacher_masked and head.start is not None and layered:
        with torch.no_grad():
            head.start(model, bert, config, activations)
    return model.eval()
