"""What a study draws: every part with its bounds, in one place, for each family of students.

No combination of what is drawn is impossible: the width is a multiple of every head count in the space, and no part is
beyond what the teacher allows.
"""

import dataclasses
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from transformers import PretrainedConfig

from common.errors import UserError, unknown_name
from distill.named_numbers import named_texts
from distill.recipes import recipe_for
from distill.stages import Stage
from students.presets import SHARING, StudentConfig, student_preset

Value = int | float | str
"""Of one part in one trial."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One thing that a study draws; fixed where only one value is left."""

    name: str
    default: Value
    """The preset's or the recipe's."""
    low: float = 0
    high: float = 0
    step: int = 1
    log: bool = False
    """A real number, drawn by its logarithm; else a whole number in steps."""
    choices: tuple[Value, ...] = ()
    """One of these instead of a number."""

    @property
    def fixed(self) -> Value | None:
        """The only value, where there is only one."""
        if self.choices:
            return self.choices[0] if len(self.choices) == 1 else None
        if self.low != self.high:
            return None
        return float(self.low) if self.log else int(self.low)

    def draw(self, trial: optuna.trial.BaseTrial) -> Value:
        """The trial's value."""
        if self.fixed is not None:
            return self.fixed
        if self.choices:
            chosen = trial.suggest_categorical(self.name, self.choices)
            assert chosen is not None, "no part has None among its choices"
            return chosen
        if self.log:
            return trial.suggest_float(self.name, self.low, self.high, log=True)
        return trial.suggest_int(self.name, int(self.low), int(self.high), step=self.step)

    def holds(self, value: Value) -> bool:
        """Whether the value could be drawn."""
        if self.choices:
            return value in self.choices
        if isinstance(value, str) or not self.low <= value <= self.high:
            return False
        return self.log or (value - self.low) % self.step == 0

    @property
    def words(self) -> str:
        """Its values, for a reader."""
        if self.choices:
            return " | ".join(map(str, self.choices))
        steps = ", log" if self.log else f", step {self.step}" if self.step > 1 else ""
        return f"{self.low:g}" if self.low == self.high else f"{self.low:g}..{self.high:g}{steps}"


Space = dict[str, Part]


def drawn(space: Space, trial: optuna.trial.BaseTrial) -> dict[str, Value]:
    """Every part's value in this trial."""
    return {name: part.draw(trial) for name, part in space.items()}


def defaults(space: Space) -> dict[str, Value] | None:
    """The preset as a trial; None where the space, narrowed by the user, has no place for it."""
    if not all(part.holds(part.default) for part in space.values()):
        return None
    return {name: part.default for name, part in space.items() if part.fixed is None}


def student_space(student: str, teacher: PretrainedConfig, *, kind: str, recipe: str, start: str | None) -> Space:
    """The space of a student for a teacher of this configuration on a task of this kind."""
    preset = student_preset(student, teacher)
    stages = recipe_for(recipe, student)
    free = (start or preset.start) == "random"
    parts = [*_shape(preset, teacher, free=free), *_learning(stages, kind), *_length(stages)]
    return {part.name: part for part in parts}


def _shape(preset: StudentConfig, teacher: PretrainedConfig, *, free: bool) -> list[Part]:
    """Layers, width, heads, FFN; for albert sharing and E too."""
    layers = Part(name="layers", default=preset.layers, low=1, high=teacher.num_hidden_layers)
    if preset.family == "bert":
        heads = preset.heads
        narrow = _grid(preset.hidden, teacher.hidden_size // 3, teacher.hidden_size, heads)
        wide = _grid(preset.ffn, teacher.intermediate_size // 8, teacher.intermediate_size, 16)
        return [
            layers,
            Part(name="heads", default=heads, choices=(heads,)),
            Part(name="hidden", default=preset.hidden, low=narrow[0], high=narrow[1], step=heads),
            Part(name="ffn", default=preset.ffn, low=wide[0], high=wide[1], step=16),
        ]
    if preset.family == "distilbert":
        return [layers]
    embedding = _grid(preset.embedding or 0, 16, teacher.hidden_size, 16)
    return [
        layers,
        Part(name="sharing", default="all", choices=SHARING),
        Part(name="embedding", default=preset.embedding or 0, low=embedding[0], high=embedding[1], step=16),
    ]


def _grid(default: int, low: int, high: int, step: int) -> tuple[int, int]:
    """The bounds within low and high from which steps meet the default."""
    below, above = max(0, (default - max(low, 1)) // step), max(0, (high - default) // step)
    return default - below * step, default + above * step


_OPTIONAL = ("attention", "cosine", "hard")
"""Losses that a study may leave out: beside each of them every recipe has another in the same stage."""


def _learning(stages: tuple[Stage, ...], kind: str) -> list[Part]:
    """Layer map, temperature, and weights of losses."""
    parts = []
    if any(stage.needs("mapped") for stage in stages):
        parts.append(Part(name="layer_map", default="uniform", choices=("uniform", "top", "bottom")))
    soft = [stage for stage in stages if "soft" in stage.losses]
    if soft and kind != "regression" and isinstance(soft[-1].temperature, (int, float)):
        parts.append(Part(name="temperature", default=float(soft[-1].temperature), low=1.0, high=8.0, log=True))
    weights = {name: weight for stage in stages for name, weight in stage.losses.items() if _several(stage)}
    for name, weight in weights.items():
        if isinstance(weight, (int, float)):
            without = (0.0,) if name in _OPTIONAL else ()
            values = (*without, weight / 4, weight / 2, float(weight), weight * 2, weight * 4)
            parts.append(Part(name=f"weight_{name}", default=float(weight), choices=values))
    return parts


def _several(stage: Stage) -> bool:
    """The weight of a loss that is alone in its stage is only another learning rate."""
    return len(stage.losses) > 1


def _length(stages: tuple[Stage, ...]) -> list[Part]:
    """Rates, batch and length."""
    tokens = next((stage.tokens for stage in reversed(stages) if stage.tokens), None)
    parts = [
        Part(name="rate_factor", default=1.0, low=0.5, high=4.0, log=True),
        Part(name="budget", default=1.0, choices=(0.5, 1.0, 1.5, 2.0)),
    ]
    if tokens is not None:
        parts.append(Part(name="batch_tokens", default=tokens, choices=(tokens // 2, tokens, tokens * 2)))
    return parts


def narrowed(space: Space, fix: str, ranges: str, file: Path | None) -> Space:
    """The space with parts fixed or narrowed: by a file, then by --range, then by --fix.

    Raises:
        UserError: an unknown part, or a value that it cannot have.
    """
    wanted: dict[str, tuple[str, Any]] = {}
    for name, value in (_read(file) if file else {}).items():
        wanted[name] = (f"{file}: {name}", value)
    for option, text in (("--range", ranges), ("--fix", fix)):
        for name, value in named_texts(option, text, space).items():
            if value is None:
                raise UserError(f"{option} {text}: expected NAME=VALUE, separated by commas")
            wanted[name] = (f"{option} {name}={value}", _ends(value) if option == "--range" else value)
    for name, (where, value) in wanted.items():
        if name not in space:
            raise UserError(f"{where}: {unknown_name('part of the space', name, space)}")
        space = space | {name: _narrow(space[name], value, where)}
    return _even(space)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        value = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError) as error:
        raise UserError(f"--space {path} cannot be read: {error}. Expected toml or json of NAME = VALUE") from error
    if not isinstance(value, dict):
        raise UserError(f"--space {path}: expected names with values")
    return value


def _ends(text: str) -> list[str]:
    return text.split("..") if ".." in text else text.split("|")


def _narrow(part: Part, value: Any, where: str) -> Part:
    """One value fixes a part; two bound a number; several are choices."""
    several = isinstance(value, list)
    found = [_as_of(part, entry, where) for entry in (value if several else [value])]
    if isinstance(part.default, str) and not all(entry in part.choices for entry in found):
        raise UserError(f"{where}: expected of {part.words}")
    if part.choices:
        return dataclasses.replace(part, choices=tuple(found))
    ends = [float(entry) for entry in found]
    if len(ends) > 2 or ends[0] > ends[-1] or ends[0] <= 0:
        raise UserError(f"{where}: expected a number above 0, or two as in 2..4")
    return dataclasses.replace(part, low=ends[0], high=ends[-1])


def _as_of(part: Part, value: Any, where: str) -> Value:
    try:
        kind = type(part.default)
        result = kind(value)
    except (TypeError, ValueError):
        result = math.nan
    if isinstance(result, float) and not math.isfinite(result):
        raise UserError(f"{where}: expected {part.words}")
    assert isinstance(result, (int, float, str))
    return result


def _even(space: Space) -> Space:
    """With widths that every head count divides."""
    if "hidden" not in space:
        return space
    hidden, heads = space["hidden"], space["heads"]
    step = math.lcm(*(int(count) for count in heads.choices))
    low, high = math.ceil(hidden.low / step) * step, math.floor(hidden.high / step) * step
    if low > high:
        raise UserError(f"hidden={hidden.words}: none of these is a multiple of heads {heads.words}")
    return space | {"hidden": dataclasses.replace(hidden, low=low, high=high, step=step)}
