"""What a user changes in a recipe: layer map, projections, temperature, weights of losses, rates, batches."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from common.errors import UserError, unknown_name
from distill.layers import MAPS
from distill.named_numbers import named_texts
from distill.schedules import Number, Schedule
from distill.stages import Stage, without
from distill.terms import TERMS

_PROJECTIONS = ("shared", "per layer")


@dataclass(frozen=True, kw_only=True)
class ChangeOptions:
    """Changes to the recipe."""

    layer_map: str | None = None
    """Teacher layers that hidden states and attention are compared with: uniform, top, bottom, nearest (found by the
    data, again every 100 steps), or a list, as in 2,4,6. None: the recipe's."""
    projection: str | None = None
    """From the student's width to the teacher's: shared (one for all layers) or per-layer. None: the recipe's."""
    temperature: str | None = None
    """Of soft losses: a number, or two for one that changes evenly over the stage, as in 8..1. None: the recipe's."""
    loss_weights: str | None = None
    """Weights of losses in the stages that have them, as in soft=1..0.5,hard=0..0.5 (0 leaves a loss out). None: the
    recipe's."""
    rate_factor: float = 1.0
    """Peak learning rates of all stages, times this."""
    batch_tokens: int | None = None
    """Pieces of a batch of the task's texts, however few texts these are. None: the recipe's, which fills batches of
    short texts up and has 32 of long ones."""
    class_weights: Literal["none", "balanced"] = "none"
    """Of the students' loss on labels, and their twins': balanced lets an example (of tags: a word) count the more the
    rarer its class is, so that all classes count the same. What is learned from the teacher stays as it is; the
    teacher's own are --teacher-class-weights."""

    def __post_init__(self) -> None:
        if not 0 < self.rate_factor < math.inf:
            raise UserError(f"--rate-factor {self.rate_factor}: expected a number above 0")
        if self.batch_tokens is not None and self.batch_tokens < 1:
            raise UserError(f"--batch-tokens {self.batch_tokens}: expected at least 1")
        if self.layer_map is not None and not self.layer_map[:1].isdigit() and self.layer_map not in MAPS:
            raise unknown_name("--layer-map", self.layer_map, MAPS)
        if self.projection is not None and self.projection.replace("-", " ") not in _PROJECTIONS:
            raise UserError(f"--projection {self.projection}: expected shared or per-layer")
        if self.temperature is not None:
            parse_number("--temperature", self.temperature)
        parse_weights(self.loss_weights or "")


def parse_number(option: str, text: str) -> Number:
    """ "2", or "8..1" from the first step of a stage to its last.

    >>> parse_number("--temperature", "8..1")
    Schedule(start=8.0, end=1.0, shape='linear')
    """
    try:
        ends = [float(part) for part in text.split("..")]
    except ValueError:
        ends = []
    if len(ends) not in (1, 2):
        raise UserError(f"{option} {text}: expected a number, or two as in 8..1")
    return ends[0] if len(ends) == 1 else Schedule(start=ends[0], end=ends[1])


def parse_weights(text: str) -> dict[str, Number]:
    """Loss term to weight.

    >>> parse_weights("soft=2,hard=0..1")["soft"]
    2.0
    """
    weights: dict[str, Number] = {}
    for name, number in named_texts("--loss-weights", text, TERMS).items():
        if number is None:
            raise UserError(f"--loss-weights {text}: expected NAME=NUMBER, separated by commas")
        weights[name] = parse_number(f"--loss-weights {name}", number)
    return weights


def changed(stages: tuple[Stage, ...], options: ChangeOptions) -> tuple[Stage, ...]:
    """The stages with the changes, each where it applies.

    Raises:
        UserError: a change that applies to none of them, or that leaves a stage without losses.
    """
    weights = parse_weights(options.loss_weights or "")
    for name in weights:
        _require(f"--loss-weights {name}", any(name in stage.losses for stage in stages))
    stages = tuple(_weighted(stage, options, weights) for stage in stages)
    if options.layer_map is not None:
        _require(f"--layer-map {options.layer_map}", any(stage.needs("mapped") for stage in stages))
    if options.projection is not None:
        _require(f"--projection {options.projection}", any(stage.needs("hidden") for stage in stages))
    if options.temperature is not None:
        _require(f"--temperature {options.temperature}", any("soft" in stage.losses for stage in stages))
    return tuple(_changed(stage, options) for stage in stages)


def _require(option: str, of_use: bool) -> None:
    if not of_use:
        raise UserError(f"{option}: no stage of this recipe has that: leave it out, or choose another --recipe")


def _weighted(stage: Stage, options: ChangeOptions, weights: Mapping[str, Number]) -> Stage:
    left = without(stage, [name for name, weight in weights.items() if weight == 0])
    if not left.losses:
        raise UserError(f"--loss-weights {options.loss_weights}: the stage {stage.name} is left without a loss")
    return dataclasses.replace(left, losses={name: weights.get(name, weight) for name, weight in left.losses.items()})


def _changed(stage: Stage, options: ChangeOptions) -> Stage:
    changes: dict[str, object] = {"learning_rate": stage.learning_rate * options.rate_factor}
    if options.batch_tokens is not None and stage.sets:
        changes |= {"tokens": options.batch_tokens, "at_most": True}
    if options.layer_map is not None and stage.needs("mapped"):
        changes["layers"] = options.layer_map
    if options.projection is not None and stage.needs("hidden"):
        changes["projection"] = options.projection.replace("-", " ")
    if options.temperature is not None and "soft" in stage.losses:
        changes["temperature"] = parse_number("--temperature", options.temperature)
    return dataclasses.replace(stage, **changes)  # type: ignore[arg-type]
