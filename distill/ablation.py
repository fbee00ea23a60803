"""What each part of a recipe is worth: the same without one stage or one loss, as papers tabulate it."""

import dataclasses

from common.errors import UserError
from distill.stages import Stage, without

WHOLE = "whole"
ANSWERS = {"soft", "hard"}
"""Terms that train a student's answers: one of them stays, or there is no student to compare."""

Variants = dict[str, tuple[Stage, ...]]


def ablations(stages: tuple[Stage, ...]) -> Variants:
    """The recipe as it is, without each of its stages, and without each of its losses; every variant once.

    A stage that trains the answers is not left out: it learns the labels instead of what is removed, as TinyBERT's
    "w/o Pred" does (arXiv 1909.10351, table 3).

    Raises:
        UserError: a recipe of one stage with one loss, of which nothing can be removed.
    """
    variants: Variants = {WHOLE: stages}
    losses = dict.fromkeys(name for stage in stages for name in stage.losses)
    for stage in stages:
        if len(stages) > 1:
            name = f"{stage.name} stage" if stage.name in losses else stage.name
            _add(variants, f"no {name}", _without_stage(stages, stage))
    for name in losses:
        _add(variants, f"no {name}", _without_loss(stages, name))
    if len(variants) == 1:
        raise UserError("--ablate: this recipe has one stage with one loss, of which nothing can be removed")
    return variants


def _add(variants: Variants, name: str, stages: tuple[Stage, ...]) -> None:
    """Where it is none of them already, by what it trains on: a description alone makes no variant."""
    plain = _undescribed(stages)
    if stages and all(plain != _undescribed(other) for other in variants.values()):
        variants[name] = stages


def _without_stage(stages: tuple[Stage, ...], removed: Stage) -> tuple[Stage, ...]:
    if ANSWERS.isdisjoint(removed.losses):
        return tuple(stage for stage in stages if stage is not removed)
    return tuple(_labels_alone(stage) if stage is removed else stage for stage in stages)


def _without_loss(stages: tuple[Stage, ...], name: str) -> tuple[Stage, ...]:
    left = []
    for stage in stages:
        losses = stage.losses.keys() - {name}
        if losses and (ANSWERS & losses or ANSWERS.isdisjoint(stage.losses)):
            left.append(without(stage, {name}))
        elif not ANSWERS.isdisjoint(stage.losses):
            left.append(_labels_alone(stage))
    return tuple(left)


def _labels_alone(stage: Stage) -> Stage:
    return dataclasses.replace(
        stage, description="The labels alone.", losses={"hard": 1.0}, teacher="none", data="train", mix={}
    )


def _undescribed(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    return tuple(dataclasses.replace(stage, description="") for stage in stages)
