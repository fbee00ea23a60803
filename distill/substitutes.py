"""Losses in the place of those that a family of teachers cannot give, found before anything is trained."""

import dataclasses

from transformers import PretrainedConfig

from common.families import FAMILIES, scored_layers
from common.pooled import plain_type
from distill.layers import layer_map
from distill.schedules import Number
from distill.stages import Stage

SCORES = ("attention", "attention_kl")
"""Terms that compare attention scores."""


def answerable(
    stages: tuple[Stage, ...], student_layers: int, teacher: PretrainedConfig, length: int
) -> tuple[Stage, ...]:
    """The stages with relations of queries, keys and values where the teacher has no attention scores to compare.

    MiniLMv2's relations (arXiv 2012.15828) are formed from what every family projects, so that any teacher gives them.
    They get the weight that the scores had. `length`: the longest text in pieces.
    """
    return tuple(_answerable(stage, student_layers, teacher, length) for stage in stages)


def _answerable(stage: Stage, student_layers: int, teacher: PretrainedConfig, length: int) -> Stage:
    asked = [name for name in SCORES if name in stage.losses]
    if not asked or _compared(stage, student_layers, teacher.num_hidden_layers) <= scored_layers(teacher, length):
        return stage
    losses: dict[str, Number] = {}
    for name, weight in stage.losses.items():
        losses.setdefault("relations" if name in asked else name, weight)
    return dataclasses.replace(stage, losses=losses, note=_reason(teacher))


def _compared(stage: Stage, students: int, teachers: int) -> frozenset[int]:
    """The teacher layers whose scores the stage may compare; 0 is refused where maps are checked."""
    if stage.layers == "nearest":
        return frozenset(range(1, teachers + 1))
    return frozenset(layer_map(stage.layers, students, teachers)) - {0}


def _reason(teacher: PretrainedConfig) -> str:
    family = FAMILIES[plain_type(teacher)]
    why = (
        "some of its layers attend to a window alone, shorter than the texts"
        if family.scores
        else "it adds terms of relative positions to the products of queries and keys"
    )
    return (
        f"Attention scores of {family.title} are no goal for a student ({why}): relations of queries, keys and values "
        "are compared instead."
    )
