"""The options of general distillation, and what each student learns by default."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import BertConfig

from common.errors import UserError, unknown_name
from distill.named_numbers import named_numbers
from students.presets import STARTS, STUDENTS, student_preset
from students.shape import ShapeOptions, alien_options
from teacher.loop_config import LoopConfig
from teacher.scratch_options import ScratchOptions

MAPPINGS = ("uniform", "top", "bottom")
"""Names of layer maps that need no look at the data."""

LAYER_TERMS = ("embedding", "hidden", "attention", "cosine")
"""Losses on what happens inside: text as it is will do, and any BERT teacher."""

MASKED_TERMS = ("soft", "mlm")
"""Losses on the prediction of masked pieces."""

DEFAULT_STEPS = 1000
"""If neither --steps nor --epochs is given."""


@dataclass(frozen=True, kw_only=True)
class GeneralRecipe:
    """What a student learns from text, and how fast."""

    losses: Mapping[str, float]
    """Term to weight."""
    learning_rate: float
    warmup: float = 0.1
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.01
    clip: float = 1.0


GENERAL_RECIPES = {
    # TinyBERT, arXiv 1909.10351, section 3.2, stage 1.
    "tiny": GeneralRecipe(losses={"embedding": 1.0, "hidden": 1.0, "attention": 1.0}, learning_rate=3e-4),
    # DistilBERT, arXiv 1910.01108, and its released code.
    "distil": GeneralRecipe(
        losses={"soft": 5.0, "mlm": 2.0, "cosine": 1.0},
        learning_rate=5e-4,
        warmup=0.05,
        betas=(0.9, 0.98),
        weight_decay=0.0,
        clip=5.0,
    ),
    "albert": GeneralRecipe(losses={"embedding": 1.0, "hidden": 1.0}, learning_rate=5e-4),
}


@dataclass(frozen=True, kw_only=True)
class GeneralConfig:
    """Distil a student on text alone, once for all tasks, into a model folder that people fine-tune."""

    out: Path
    """Model folder to be written; while it runs, everything is in OUT-unfinished."""
    student: str = "tiny"
    """One student: tiny, distil or albert."""
    teacher: str = "auto"
    """The teacher before any fine-tuning: auto (minilm if installed, else scratch), minilm, scratch (pretrained here
    first), a model folder, or a hub id. The loss soft needs one with a trained head for masked pieces, which minilm
    lacks."""
    text: str = "pydocs"
    """pydocs (docstrings of the installed libraries), a text file, a folder of them, or hub:ID."""
    start: str | None = None
    """First weights: prune for tiny, copy for distil, svd for albert; of each also embeddings (the teacher's table of
    pieces alone) and random. None: the first of these, or embeddings where the teacher's layers are not of BERT's
    kind."""
    losses: str | None = None
    """Terms and weights, as in soft=5,mlm=2,cosine=1: embedding, hidden, attention, cosine; soft and mlm on masked
    text. None: the student's own (tiny embedding,hidden,attention; distil soft=5,mlm=2,cosine=1; albert
    embedding,hidden)."""
    temperature: float = 2.0
    """Of the soft loss."""
    layer_map: str = "uniform"
    """Teacher layers that hidden states and attention are compared with: uniform, top, bottom, or a list, as in
    2,4,6."""
    steps: int | None = None
    """Optimizer steps; 1000 if neither this nor --epochs is given."""
    epochs: float | None = None
    """Passes over all of the text, instead of steps."""
    batch_size: int = 32
    """Sequences a step. With soft the logits of all their pieces over the whole vocabulary are in memory at once."""
    length: int = 128
    """Longest sequence, in pieces; longer documents give several."""
    learning_rate: float | None = None
    """Peak of AdamW; after warm-up it falls to 0. None: tiny 3e-4, distil and albert 5e-4."""
    dropout: bool = False
    """Drop units as in the student's configuration (as DistilBERT did). Text that is not repeated cannot be learned by
    heart, and a step without takes two thirds of the time on a CPU."""
    precision: str = "auto"
    """auto (bf16 where the processor multiplies it natively), fp32 or bf16."""
    checkpoint_every: int = 200
    """Steps between checkpoints."""
    seed: int = 0
    """Draws random weights, the order of the text and masks."""
    resume: bool = False
    """Go on with an interrupted run of the same settings; starts one where there is none."""
    runs: Path = Path("runs")
    """Folder where a teacher that is pretrained here is kept."""
    shape: ShapeOptions = field(default_factory=ShapeOptions)
    scratch: ScratchOptions = field(default_factory=ScratchOptions)

    def __post_init__(self) -> None:
        self.scratch.refuse_unless_scratch(self.teacher, "--teacher")
        if self.student not in STUDENTS or self.student not in GENERAL_RECIPES:
            raise unknown_name("student", self.student, GENERAL_RECIPES)
        problems = [*self._problems_of_the_student(), *self._problems_of_training()]
        if problems:
            raise UserError("; ".join(problems))

    def _problems_of_the_student(self) -> list[str]:
        problems = []
        family = student_preset(self.student, BertConfig()).family
        starts = [name for name in STARTS[family] if name != "general"]
        if self.start is not None and self.start not in starts:
            problems.append(str(unknown_name(f"--start for {self.student}", self.start, starts)))
        if alien := alien_options(self.shape, [family]):
            problems.append(alien)
        try:
            parse_losses(self.losses)
        except UserError as error:
            problems.append(str(error))
        return problems

    def _problems_of_training(self) -> list[str]:
        problems = []
        if self.steps is not None and self.epochs is not None:
            problems.append("--steps and --epochs contradict each other: give one of them")
        if self.epochs is not None and not 0 < self.epochs < math.inf:
            problems.append(f"--epochs {self.epochs}: expected a number above 0")
        if self.layer_map not in MAPPINGS and not self.layer_map[:1].isdigit():
            problems.append(f"{unknown_name('--layer-map', self.layer_map, MAPPINGS)}, or a list, as in 2,4,6")
        if not 0 < self.temperature < math.inf:
            problems.append(f"--temperature {self.temperature}: expected a number above 0")
        if self.batch_size < 1:
            problems.append(f"--batch-size {self.batch_size}: expected at least 1")
        if self.length < 8:
            problems.append(f"--length {self.length}: expected at least 8 pieces")
        if self.layer_map == "nearest":
            problems.append("--layer-map nearest is an option of python -m distill.run: choose uniform, top or bottom")
        try:
            self.loop(1 if self.wanted_steps is None else self.wanted_steps)
        except UserError as error:
            problems.append(str(error))
        return problems

    @property
    def terms(self) -> dict[str, float]:
        """Loss term to its weight."""
        return parse_losses(self.losses) or dict(GENERAL_RECIPES[self.student].losses)

    @property
    def masked(self) -> bool:
        """Whether pieces are masked."""
        return not set(MASKED_TERMS).isdisjoint(self.terms)

    @property
    def wanted_steps(self) -> int | None:
        """None where epochs decide."""
        return None if self.epochs is not None else self.steps if self.steps is not None else DEFAULT_STEPS

    def loop(self, steps: int) -> LoopConfig:
        """The loop's settings for so many steps."""
        recipe = GENERAL_RECIPES[self.student]
        return LoopConfig(
            learning_rate=recipe.learning_rate if self.learning_rate is None else self.learning_rate,
            steps=steps,
            warmup=recipe.warmup,
            betas=recipe.betas,
            weight_decay=recipe.weight_decay,
            clip=recipe.clip,
            precision=self.precision,
            checkpoint_every=self.checkpoint_every,
            seed=self.seed,
        )

    def settings(self) -> dict[str, Any]:
        """What decides the weights, beside text and teacher."""
        kept = {name: value for name, value in dataclasses.asdict(self).items() if name not in _NOT_SETTINGS}
        return kept | {"steps": self.wanted_steps, "losses": self.terms} | self.scratch.given


_NOT_SETTINGS = ("out", "resume", "runs", "checkpoint_every", "scratch")


def parse_losses(text: str | None) -> dict[str, float]:
    """Terms and weights as --losses has them, a term alone with weight 1; empty for None."""
    if text is None:
        return {}
    known, example = (*LAYER_TERMS, *MASKED_TERMS), "soft=5,mlm=2,cosine=1"
    return named_numbers("--losses", text, known, what="weight", example=example, default=1.0)
