"""What a study draws: every part with its bounds, in one place, for each family of students.

No combination of what is drawn is impossible: the width is a multiple of every head count in the space, and no part is
beyond what the teacher allows.
"""

from dataclasses import dataclass
from typing import cast

import numpy as np
import optuna
from transformers import PretrainedConfig

from distill.recipes import recipe_for
from distill.stages import Stage
from students.presets import SHARING, StudentConfig, student_preset
from teacher.batches import mean_padded

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
    asked: bool = False
    """Stays at its default unless the user fixes or narrows it: it would make every trial dearer."""

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
            return cast(Value, trial.suggest_categorical(self.name, self.choices))
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
    def idle(self) -> bool:
        """Whether it plays no part in the study."""
        return self.asked and self.fixed == self.default

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
    """The preset as a trial, but for what the user fixed; None where what is left to draw has no place for it."""
    free = {name: part.default for name, part in space.items() if part.fixed is None}
    return free if all(space[name].holds(value) for name, value in free.items()) else None


def student_space(student: str, teacher: PretrainedConfig, *, kind: str, recipe: str, start: str | None) -> Space:
    """The space of a student for a teacher of this configuration on a task of this kind."""
    preset = student_preset(student, teacher)
    stages = recipe_for(recipe, student)
    free = (start or preset.start) == "random"
    least = 2 if any("pkd" in stage.losses for stage in stages) else 1
    parts = [*_shape(preset, teacher, free=free, least=least), *_learning(stages, kind), *_length(stages), *_shipping()]
    return {part.name: part for part in parts}


def _shape(preset: StudentConfig, teacher: PretrainedConfig, *, free: bool, least: int) -> list[Part]:
    """Layers, of which the losses need so many at least, width, heads, FFN; for albert sharing and E too."""
    most = teacher.num_hidden_layers
    layers = Part(name="layers", default=preset.layers, low=min(least, most), high=most)
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
        parts.append(_batch(tokens))
    return parts


def _batch(tokens: int) -> Part:
    """Half, all and twice of what a batch has by default."""
    return Part(name="batch_tokens", default=tokens, choices=(tokens // 2, tokens, tokens * 2))


def for_texts(space: Space, stages: tuple[Stage, ...], lengths: np.ndarray) -> Space:
    """The space for a recipe of these stages on training texts of these lengths, in pieces.

    Of long texts a recipe has more pieces in a batch than it asks for: the batches to choose from are around those,
    unless the user has named some.
    """
    part = space.get("batch_tokens")
    if part is None or part != _batch(int(part.default)):
        return space
    texts = max(stage.batch_size for stage in stages if stage.tokens)
    own = max(int(part.default), round(texts * mean_padded(lengths)))
    return space | {"batch_tokens": _batch(own)}


def _shipping() -> list[Part]:
    """What is done to a finished student, as in distill.compress: vocabulary, share that is pruned, what runs it."""
    return [
        Part(name="trim", default="off", choices=("off", "on"), asked=True),
        Part(name="prune", default=0.0, choices=(0.0, 0.25, 0.5), asked=True),
        Part(name="runtime", default="torch", choices=("torch", "onnx", "int8"), asked=True),
    ]


def samples(space: Space) -> list[dict[str, Value]]:
    """Settings to check a space by: its lowest, its highest, and every choice beside the lowest of the others."""
    low, high = (
        {
            name: part.choices[place] if part.choices else type(part.default)((part.low, part.high)[place])
            for name, part in space.items()
        }
        for place in (0, -1)
    )
    return [low, high, *(low | {name: choice} for name, part in space.items() for choice in part.choices[1:])]
