"""Stages as data, and the recipes that are made of them: which teacher, which examples, which losses, how long."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from common.errors import UserError, unknown_name
from distill.terms import TERMS
from teacher.loop import LoopConfig


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
    losses: Mapping[str, float]
    """Term (a key of TERMS) to weight."""
    mix: Mapping[str, float | None] = field(default_factory=dict)
    """Of "mixed" data: set (of distill.transfer_options.SETS) to its share of an epoch; None: every example once."""
    temperature: float = 1.0
    layers: str = "uniform"
    """The layer map."""
    learning_rate: float
    epochs: float = 1.0
    """Passes over the task's examples."""
    steps: int | None = None
    """Steps instead of epochs; stages on general text have steps."""
    most_steps: int | None = None
    """No more steps than these, however many examples an epoch has."""
    dropout: bool = False
    """Drop units as in the student's configuration. A teacher's outputs keep a student from learning rows by heart, and
    a step without dropout takes two thirds of the time on a CPU."""
    batch_size: int = 32
    warmup: float = 0.1
    schedule: str = "linear"
    select: bool = False
    """Keep the weights that do best on the selection split."""

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

    @property
    def sets(self) -> tuple[str, ...]:
        """The sets of examples that it draws from; none where it reads general text."""
        one = {"text": (), "train": ("labeled",), "augmented": ("augmented",)}
        return one.get(self.data, tuple(self.mix))

    def loop(self, *, examples: int, seed: int, precision: str, checkpoint_every: int) -> LoopConfig:
        """The loop's settings for this stage on so many examples."""
        steps = self.steps or max(1, round(self.epochs * math.ceil(examples / self.batch_size)))
        return LoopConfig(
            learning_rate=self.learning_rate,
            steps=min(steps, self.most_steps or steps),
            warmup=self.warmup,
            schedule=self.schedule,
            precision=precision,
            seed=seed,
            checkpoint_every=checkpoint_every,
        )


def scaled(stages: tuple[Stage, ...], factor: float) -> tuple[Stage, ...]:
    """The same recipe with every stage's length times `factor`."""
    return tuple(
        dataclasses.replace(
            stage,
            epochs=stage.epochs * factor,
            steps=_times(stage.steps, factor),
            most_steps=_times(stage.most_steps, factor),
        )
        for stage in stages
    )


def _times(steps: int | None, factor: float) -> int | None:
    return None if steps is None else max(1, round(steps * factor))


def tiny_recipe() -> tuple[Stage, ...]:
    """TinyBERT's stages without augmentation (arXiv 1909.10351, section 3.2): general, intermediate, prediction."""
    layers = {"embedding": 1.0, "hidden": 1.0, "attention": 1.0}
    return (
        Stage(
            name="general",
            description="The teacher before fine-tuning, on general text: embeddings, hidden states, attention scores.",
            teacher="pretrained",
            data="text",
            losses=layers,
            learning_rate=3e-4,
            steps=100,
        ),
        Stage(
            name="intermediate",
            description="The fine-tuned teacher on the task's texts: embeddings, hidden states and attention scores.",
            teacher="finetuned",
            data="train",
            losses=layers,
            learning_rate=3e-4,
            epochs=1.0,
            most_steps=1500,
        ),
        Stage(
            name="prediction",
            description="The fine-tuned teacher's logits on the task's texts.",
            teacher="finetuned",
            data="train",
            losses={"soft": 1.0},
            learning_rate=2e-4,
            epochs=2.0,
            most_steps=4000,
            select=True,
        ),
    )


def distil_recipe() -> tuple[Stage, ...]:
    """DistilBERT's losses on the task (arXiv 1910.01108, section 3): soft and hard labels, cosine of last states."""
    return (
        Stage(
            name="distil",
            description="The fine-tuned teacher's logits (T = 2), the labels, the direction of the last hidden states.",
            teacher="finetuned",
            data="train",
            losses={"soft": 5.0, "hard": 2.0, "cosine": 1.0},
            temperature=2.0,
            learning_rate=2e-4,
            epochs=2.0,
            most_steps=4000,
            select=True,
        ),
    )


def albert_recipe() -> tuple[Stage, ...]:
    """Hidden states of every pass of the shared block, then the logits."""
    return (
        Stage(
            name="hidden",
            description="The fine-tuned teacher's embeddings and hidden states, pass by pass, on the task's texts.",
            teacher="finetuned",
            data="train",
            losses={"embedding": 1.0, "hidden": 1.0},
            learning_rate=5e-4,
            epochs=1.0,
            most_steps=1500,
        ),
        Stage(
            name="soft",
            description="The fine-tuned teacher's logits on the task's texts.",
            teacher="finetuned",
            data="train",
            losses={"soft": 1.0},
            learning_rate=2e-4,
            epochs=2.0,
            most_steps=3000,
            select=True,
        ),
    )


def outputs_recipe() -> tuple[Stage, ...]:
    """For a teacher that is only its outputs: these and the labels (Hinton et al. 2015, arXiv 1503.02531)."""
    return (
        Stage(
            name="outputs",
            description="The teacher's stored outputs (T = 2) and the labels.",
            teacher="finetuned",
            data="train",
            losses={"soft": 0.5, "hard": 0.5},
            temperature=2.0,
            learning_rate=2e-4,
            epochs=3.0,
            most_steps=6000,
            select=True,
        ),
    )


def refuse_layers(student: str, stages: tuple[Stage, ...]) -> None:
    """A teacher that is only its outputs has no layers.

    Raises:
        UserError: a stage compares layers.
    """
    for stage in stages:
        layered = [name for name in stage.losses if TERMS[name].hidden or TERMS[name].attention]
        if layered:
            raise UserError(
                f"student {student}: its stage {stage.name!r} compares layers ({', '.join(layered)}), of which "
                "--teacher-outputs has none: use a recipe of soft and hard losses alone, or a teacher that is a model"
            )


RECIPES: dict[str, Callable[[], tuple[Stage, ...]]] = {
    "tiny": tiny_recipe,
    "distil": distil_recipe,
    "albert": albert_recipe,
}


def twin_recipe(stages: tuple[Stage, ...], sizes: Mapping[str, int] | None = None) -> tuple[Stage, ...]:
    """The same student without distillation: labels alone, for as many task epochs as its stages have together.

    Where they draw from other sets than the labelled rows, `sizes` (set to examples) makes as many steps of it.
    """
    task = [stage for stage in stages if stage.data != "text"]
    limits = [stage.most_steps for stage in task if stage.most_steps is not None]
    return (
        Stage(
            name="labels",
            description="The labels alone, from the same first weights, for as many steps as its task stages.",
            teacher="none",
            data="train",
            losses={"hard": 1.0},
            learning_rate=task[-1].learning_rate,
            epochs=sum(stage.epochs * _passes(stage, sizes) for stage in task),
            most_steps=sum(limits) if len(limits) == len(task) else None,
            dropout=True,
            batch_size=task[-1].batch_size,
            select=True,
        ),
    )


def _passes(stage: Stage, sizes: Mapping[str, int] | None) -> float:
    """Passes over the labelled rows that are as long as one over the stage's examples."""
    return 1.0 if sizes is None else sum(sizes[name] for name in stage.sets) / sizes["labeled"]
