"""What can be said about an ablation of pretraining."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common.errors import UserError, unknown_name
from common.keys import short_key
from common.words import counted
from teacher.ablation_studies import STUDIES, Plan, Variant
from teacher.options import FinetuneOptions, TaskOptions
from teacher.pretrain_config import DEFAULT_STEPS, SIZES, PretrainConfig
from teacher.pretrain_options import ScheduleOptions

POINTS = 10
"""Of a held-out curve, where the number of steps is known beforehand."""
UNKNOWN = 200
"""Steps between its points where that number is not known."""


@dataclass(frozen=True, kw_only=True)
class PretrainingOptions:
    """What all encoders have in common."""

    corpus: str = "pydocs"
    """pydocs (docstrings of the installed libraries), a text file, a folder of them, or hub:ID."""
    size: str = "mini"
    """tiny 2/128, mini 4/256, small 4/512, medium 8/512, base 12/768 or large 24/1024 (layers/width)."""
    steps: int | None = None
    """Optimizer steps of each pretraining; 2000 if neither this nor --minutes is given."""
    minutes: float | None = None
    """Pretrain each for about so long instead: deeper encoders then take fewer steps."""
    vocabulary: int | None = None
    """WordPieces, specials included. None: as teacher.pretrain has it."""
    length: int = PretrainConfig.length
    """Longest pair or segment, in pieces."""
    batch_size: int = PretrainConfig.batch_size
    """Pairs or segments a step."""
    learning_rate: float | None = None
    """Peak of AdamW. None: 1e-3."""
    evaluate_every: int | None = None
    """Steps between the points of the held-out curves. None: a tenth of the steps, and 200 with --minutes."""


@dataclass(frozen=True, kw_only=True)
class AblateConfig:
    """Pretrain encoders that differ in one thing on an equal budget, let each learn a task, and compare them.

    The task is one of classes, numbers or labels of texts. What is classified is the state of [CLS], and of the last
    piece where encoders read left to right.
    """

    study: str = "objective"
    """objective (MLM + NSP, MLM, left to right), depth, masking, or features (fine-tuned against frozen): one, several
    separated by commas, or all. What studies share is trained once."""
    depths: str = "1,2,4,6"
    """For depth: layers, separated by commas; the others are compared with the first."""
    seeds: int = 3
    """Times that each row is pretrained and learns the task, from different draws; with one there is no spread."""
    out: Path
    """Folder of the run. The same command again goes on where it was stopped, and other studies or more seeds in the
    same folder reuse what is there."""
    reports: Path = Path("reports")
    """Folder for the page, which `python -m reports.build` makes again."""
    pretraining: PretrainingOptions = field(default_factory=PretrainingOptions)
    data: TaskOptions = field(default_factory=TaskOptions)
    training: FinetuneOptions = field(default_factory=FinetuneOptions)
    precision: str = "auto"
    """auto (bf16 where the processor multiplies it natively), fp32 or bf16."""
    checkpoint_every: int = 200
    """Steps between checkpoints."""

    def __post_init__(self) -> None:
        problems = [str(unknown_name("--study", name, [*STUDIES, "all"])) for name in self._unknown]
        if self.pretraining.size not in SIZES:
            problems.append(str(unknown_name("--size", self.pretraining.size, SIZES)))
        if not self.depths_asked:
            problems.append(f"--depths {self.depths}: expected different whole numbers from 1 on, such as 1,2,4,6")
        if self.seeds < 1:
            problems.append(f"--seeds {self.seeds}: expected at least 1")
        if self.training.teacher_pooling != "cls":
            problems.append(
                f"--teacher-pooling {self.training.teacher_pooling}: encoders are compared by the state of [CLS] or "
                "of the last piece, leave it out"
            )
        if self.out.name in ("", "index"):
            problems.append(
                f"--out {self.out}: its name is the page's, and index.html is the list of runs: choose another"
            )
        if not problems:
            problems = self._pretraining_problems()
        if problems:
            raise UserError("; ".join(problems))

    @property
    def _unknown(self) -> list[str]:
        return [name for name in self._names if name not in STUDIES and name != "all"]

    @property
    def _names(self) -> list[str]:
        return list(dict.fromkeys(part.strip() for part in self.study.split(",")))

    @property
    def depths_asked(self) -> tuple[int, ...]:
        """Empty where --depths is no list of different numbers."""
        parts = [part.strip() for part in self.depths.split(",")]
        numbers = tuple(int(part) for part in parts if part.isdecimal() and int(part) > 0)
        return numbers if len(set(numbers)) == len(parts) else ()

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The studies, in the order asked for."""
        names = [*STUDIES] if "all" in self._names else self._names
        return tuple(STUDIES[name](self.pretraining.size, self.depths_asked) for name in names)

    def _pretraining_problems(self) -> list[str]:
        """What is wrong with the pretraining of any row, each problem once."""
        problems: dict[str, None] = {}
        for variant in (variant for plan in self.plans for variant in plan.variants):
            try:
                self.pretrain_config(variant, 0)
            except UserError as error:
                problems |= dict.fromkeys(str(error).split("; "))
        return list(problems)

    def pretrain_config(self, variant: Variant, seed: int) -> PretrainConfig:
        """The pretraining of a row; raises UserError."""
        options = self.pretraining
        given: dict[str, Any] = {} if options.vocabulary is None else {"vocabulary": options.vocabulary}
        return PretrainConfig(
            corpus=options.corpus,
            size=options.size,
            steps=options.steps,
            minutes=options.minutes,
            length=options.length,
            batch_size=options.batch_size,
            learning_rate=options.learning_rate,
            schedule=ScheduleOptions(evaluate_every=self._evaluate_every),
            precision=self.precision,
            checkpoint_every=self.checkpoint_every,
            seed=seed,
            resume=True,
            **given,
            **variant.changes,
        )

    @property
    def _evaluate_every(self) -> int:
        options = self.pretraining
        if options.evaluate_every is not None:
            return options.evaluate_every
        return UNKNOWN if options.minutes is not None else max(1, (options.steps or DEFAULT_STEPS) // POINTS)

    def task_options(self, seed: int) -> FinetuneOptions:
        """How the task is learned in the run with this seed."""
        return dataclasses.replace(self.training, teacher_seed=self.training.teacher_seed + seed)

    @property
    def budget(self) -> str:
        """What is equal, in a sentence."""
        options = self.pretraining
        each = f"{counted(options.batch_size, 'sequence')} of at most {options.length} pieces"
        if options.minutes is not None:
            return (
                f"Equal time: every encoder was pretrained for about {options.minutes:g} minutes, in steps of {each}; "
                "how many fit was found by timing a few."
            )
        steps = counted(options.steps or DEFAULT_STEPS, "step")
        return (
            f"Equal steps: every encoder was pretrained for {steps} of {each}. That is not equal time, nor the same "
            "number of pieces: both are in the tables."
        )


def encoder_name(config: PretrainConfig) -> str:
    """The folder of a pretrained encoder: what it is in words, and a key over all its settings."""
    layers, hidden, *_ = config.shape.resolved(*SIZES[config.size])
    hiding = [config.masking] if config.masking != PretrainConfig.masking else []
    hiding += [config.masks] if config.masks != PretrainConfig.masks else []
    key = short_key(config.settings())
    words = [config.objective.replace("+", "-"), f"{layers}x{hidden}", *hiding, f"seed-{config.seed}", key]
    return "-".join(words)
