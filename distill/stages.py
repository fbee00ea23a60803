"""Stages as data: which teacher, which examples, which losses, how long."""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from common.errors import UserError, unknown_name
from distill.schedules import Number, Schedule, ends, in_words
from distill.terms import TERMS
from teacher.loop_config import LoopConfig

MOST_EVALUATIONS = 20
"""Of one stage, on the selection split."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of a recipe."""

    name: str
    description: str
    """One sentence for the report."""
    teacher: Literal["pretrained", "finetuned", "none"]
    """The teacher before or after its fine-tuning."""
    data: Literal["text", "train", "augmented", "mixed"]
    """General text, the task's training examples, their augmented versions, or a mixture of sets."""
    losses: Mapping[str, Number]
    """Term (a key of TERMS) to weight, constant or scheduled over the stage."""
    mix: Mapping[str, float | None] = field(default_factory=dict)
    """Of "mixed" data: set (of distill.transfer_options.SETS) to its share of an epoch; None: every example once."""
    temperature: Number = 1.0
    layers: str = "uniform"
    """The layer map."""
    refresh: int = 100
    """Steps from one look for the layers of the map "nearest" to the next."""
    projection: Literal["shared", "per layer"] = "shared"
    """One map from the student's width to the teacher's, or one for the embeddings and one for each layer."""
    relation_heads: int | None = None
    """Heads that widths are split into for relations; None: the most, up to 48, that divide both widths."""
    learning_rate: float
    epochs: float = 1.0
    """Passes over its examples."""
    steps: int | None = None
    """Steps instead of epochs: on general text no more is read than these need."""
    least_steps: int | None = None
    """No fewer steps than these, however few examples an epoch has."""
    most_steps: int | None = None
    """No more steps than these, however many it has."""
    dropout: bool = False
    """Drop units as in the student's configuration. A teacher's outputs keep a student from learning rows by heart, and
    a step without dropout takes two thirds of the time on a CPU."""
    batch_size: int = 32
    tokens: int | None = None
    """Batches of short texts are filled up to so many pieces (see `filled`); None: always `batch_size` texts."""
    at_most: bool = False
    """Batches of long texts are cut down to `tokens` pieces too, with fewer than `batch_size` texts."""
    warmup: float = 0.1
    schedule: str = "linear"
    betas: tuple[float, float] = (0.9, 0.999)
    clip: float = 1.0
    select: bool = False
    """Keep the weights that do best on the selection split."""
    note: str = ""
    """One sentence on why a loss stands in another's place."""

    def __post_init__(self) -> None:
        for name in self.losses:
            if name not in TERMS:
                raise unknown_name("loss term", name, TERMS)
        if self.data == "text" and not {"hard", "soft"}.isdisjoint(self.losses):
            raise UserError(
                f"stage {self.name}: general text has no labels of the task: only layer losses can be used there"
            )
        if "hard" in self.losses and "labeled" not in self.sets:
            raise UserError(
                f"stage {self.name} weighs labels (hard), but {' and '.join(self.sets)} examples have none: use "
                "teacher-based losses there, or mix labelled examples in"
            )
        if (self.data == "mixed") != bool(self.mix):
            raise UserError(f"stage {self.name}: the shares of a mixture belong to mixed data, and to no other")
        if self.teacher == "none" and any(TERMS[name].teacher for name in self.losses):
            raise UserError(f"stage {self.name} has losses against a teacher, but no teacher")
        self._check_numbers()

    def _check_numbers(self) -> None:
        for name, weight in self.losses.items():
            if not all(0 <= value < math.inf for value in ends(weight)):
                raise UserError(f"stage {self.name}: weight {weight} of {name}: expected 0 or more")
        if not all(0 < value < math.inf for value in ends(self.temperature)):
            raise UserError(f"stage {self.name}: temperature {self.temperature}: expected a number above 0")
        if self.projection not in ("shared", "per layer"):
            raise UserError(f"stage {self.name}: projection {self.projection!r}: expected 'shared' or 'per layer'")
        if self.layers == "nearest" and self.needs("mapped") and not self.needs("hidden"):
            raise UserError(f"stage {self.name}: the layer map 'nearest' compares hidden states: weigh 'hidden' too")
        if self.refresh < 1:
            raise UserError(f"stage {self.name}: refresh {self.refresh}: expected at least 1 step")

    def needs(self, what: str) -> bool:
        """Whether one of its terms needs that: a field of Term."""
        return any(getattr(TERMS[name], what) for name in self.losses)

    @property
    def layered(self) -> bool:
        """Looks into the teacher, not only at its answers."""
        return self.needs("hidden") or self.needs("attention")

    @property
    def words(self) -> str:
        """The description, its note, and the temperature that outputs are compared at."""
        told = "soft" in self.losses and self.temperature != 1
        temperature = f"Temperature {in_words(self.temperature)}." if told else ""
        return " ".join(filter(None, (self.description, self.note, temperature)))

    def schedules(self) -> dict[str, str]:
        """In words what is scheduled: terms, and "temperature"."""
        numbers = {**self.losses, "temperature": self.temperature}
        return {name: str(number) for name, number in numbers.items() if isinstance(number, Schedule)}

    @property
    def sets(self) -> tuple[str, ...]:
        """The sets of examples that it draws from; none where it reads general text."""
        one = {"text": (), "train": ("labeled",), "augmented": ("augmented",)}
        return one.get(self.data, tuple(self.mix))

    def examples(self, sizes: Mapping[str, int]) -> int:
        """How many it draws from, by the sizes of the sets; general text counts as if it were the labelled rows."""
        return sum(sizes[name] for name in self.sets or ("labeled",))

    def length(self, examples: int) -> int:
        """Steps on so many examples."""
        if self.steps is not None:
            return self.steps
        steps = max(self.least_steps or 1, round(self.epochs * math.ceil(examples / self.batch_size)))
        return min(steps, self.most_steps or steps)

    def loop(self, *, examples: int, seed: int, precision: str, checkpoint_every: int) -> LoopConfig:
        """The loop's settings for this stage on so many examples."""
        return LoopConfig(
            learning_rate=self.learning_rate,
            steps=self.length(examples),
            warmup=self.warmup,
            schedule=self.schedule,
            betas=self.betas,
            clip=self.clip,
            precision=precision,
            seed=seed,
            checkpoint_every=checkpoint_every,
            most_evaluations=MOST_EVALUATIONS,
        )


def filled(stage: Stage, pieces: float) -> Stage:
    """The stage for examples of so many pieces each, padded: how many texts fill a batch, but no fewer than it has
    anyway, unless it is to hold `at_most` so many pieces.

    Thirty texts of ten pieces keep a processor busy with everything but arithmetic. Only the training rows' batches
    are counted in pieces then: what is drawn of several sets differs from one epoch to the next.
    """
    if stage.tokens is None or not stage.sets:
        return dataclasses.replace(stage, tokens=None)
    texts = max(1, round(stage.tokens / pieces))
    if texts <= stage.batch_size and not stage.at_most:
        return dataclasses.replace(stage, tokens=None)
    return dataclasses.replace(stage, batch_size=texts, tokens=stage.tokens if stage.data == "train" else None)


def without(stage: Stage, names: Collection[str]) -> Stage:
    """The stage without these losses, and with words for that; what is left has to be a stage."""
    removed = [name for name in stage.losses if name in names]
    if not removed:
        return stage
    return dataclasses.replace(
        stage,
        losses={name: weight for name, weight in stage.losses.items() if name not in removed},
        description=f"{stage.description} Without {' and '.join(removed)}.",
    )


def scaled(stages: tuple[Stage, ...], factor: float) -> tuple[Stage, ...]:
    """The same recipe with every stage's length times `factor`."""
    return tuple(
        dataclasses.replace(
            stage,
            epochs=stage.epochs * factor,
            steps=_times(stage.steps, factor),
            least_steps=_times(stage.least_steps, factor),
            most_steps=_times(stage.most_steps, factor),
        )
        for stage in stages
    )


def equalised(recipes: Sequence[tuple[Stage, ...]], sizes: Mapping[str, int]) -> list[tuple[Stage, ...]]:
    """Each recipe with as many steps in all as the first has, its stages in its own proportions.

    `sizes`: set to its examples. Passes over general text count as if there were as many pieces of it as labelled rows.
    """
    total = max(steps_of(recipes[0], sizes), *map(len, recipes))
    return [_with_steps(stages, total, sizes) for stages in recipes]


def steps_of(stages: Sequence[Stage], sizes: Mapping[str, int]) -> int:
    """Steps of all stages together on sets of these sizes."""
    return sum(stage.length(stage.examples(sizes)) for stage in stages)


def _with_steps(stages: tuple[Stage, ...], total: int, sizes: Mapping[str, int]) -> tuple[Stage, ...]:
    whole = steps_of(stages, sizes)
    # One step each, so that none is left out; the rest by cumulative rounding, which loses none.
    rest = total - len(stages)
    marks = [round(rest * steps_of(stages[:count], sizes) / whole) for count in range(len(stages) + 1)]
    return tuple(
        dataclasses.replace(stage, steps=1 + after - before)
        for stage, before, after in zip(stages, marks, marks[1:], strict=False)
    )


def _times(steps: int | None, factor: float) -> int | None:
    return None if steps is None else max(1, round(steps * factor))
