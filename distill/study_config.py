"""The options of a study."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from common.errors import UserError, unknown_name
from common.hardware import usable_cores
from distill.recipes import OWN, RECIPES
from students.presets import STUDENTS
from teacher.options import FinetuneOptions, TaskOptions
from teacher.scratch_options import ScratchOptions

OBJECTIVES = ("accuracy", "latency", "size")
LONGEST_NAME = 80


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """What is searched, and how."""

    trials: int = 20
    """Trials of the study in all, those of earlier sittings among them."""
    timeout: float | None = None
    """Minutes after which no further trial begins. None: no limit."""
    objective: str | None = None
    """accuracy (the task's metric on the selection split), latency, size, or several of them, separated by commas.
    None: accuracy, or with --min-retained latency."""
    max_latency_ms: float | None = None
    """Students slower than this, at batch 1 in one thread, are not trained."""
    max_size_mb: float | None = None
    """Students with more megabytes of weights than this are not trained."""
    min_retained: float | None = None
    """Share of the teacher's metric that a student has to keep, as in 0.97: the fastest that does is looked for and
    chosen (with --objective size the smallest)."""
    latency_length: int = 64
    """Pieces of the text that latency is measured on."""
    sampler: Literal["tpe", "random", "nsga2"] = "tpe"
    """How trials are drawn: tpe learns from those before, as nsga2 does for several objectives."""
    pruner: Literal["halving", "hyperband", "median", "none"] = "halving"
    """What stops a trial at a rung; with several objectives any but none stops those that two cheaper ones beat.
    With none all are trained in full at once."""
    rungs: int = 2
    """Trainings of a trial, each three times as long as the one before; only good trials reach the last. A teacher
    trains once, and is looked at 3 ** (rungs - 1) times."""
    fix: str = ""
    """Parts of the space with one value each, as in layers=4,temperature=2. trim (off, on), prune (a share) and runtime
    (torch, onnx, int8), which say what students ship as, are off, 0 and torch unless they are named here, in --range or
    in --space."""
    range: str = ""
    """Parts narrowed: numbers to a range, what is chosen to several choices, as in
    hidden=192..312,layer_map=uniform|top,runtime=torch|int8,prune=0..0.5."""
    space: Path | None = None
    """toml or json file of parts: a value, a list of choices, or the two ends of a range."""
    seed: int = 0
    """Draws trials and first weights."""

    def __post_init__(self) -> None:
        unknown = [name for name in self.objectives if name not in OBJECTIVES]
        problems = [f"--objective: {unknown_name('objective', name, OBJECTIVES)}" for name in unknown]
        if not self.objectives or len(set(self.objectives)) != len(self.objectives):
            problems.append(f"--objective {self.objective}: expected one or more of {', '.join(OBJECTIVES)}")
        for name in ("timeout", "max_latency_ms", "max_size_mb", "min_retained"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                problems.append(f"--{name.replace('_', '-')} {value}: expected a number above 0")
        if self.min_retained is not None and 1 < self.min_retained < math.inf:
            problems.append(f"--min-retained {self.min_retained}: expected a share of 1 at most, as in 0.97")
        for name, least in (("trials", 1), ("rungs", 1), ("latency_length", 1), ("seed", 0)):
            if getattr(self, name) < least:
                problems.append(f"--{name.replace('_', '-')} {getattr(self, name)}: expected at least {least}")
        if problems:
            raise UserError("; ".join(problems))

    @property
    def objectives(self) -> tuple[str, ...]:
        usual = "accuracy" if self.min_retained is None else "latency"
        given = usual if self.objective is None else self.objective
        return tuple(name.strip() for name in given.split(",") if name.strip())

    @property
    def shares(self) -> tuple[float, ...]:
        """Length of each rung, as a share of the trial's whole training; the last is 1."""
        # Where nothing stops a trial, a shorter training before the whole one is for nothing.
        rungs = 1 if self.pruner == "none" else self.rungs
        return tuple(3.0 ** -(rungs - 1 - rung) for rung in range(rungs))


@dataclass(frozen=True, kw_only=True)
class AfterOptions:
    """What happens with the best trials."""

    confirm: int = 0
    """Train so many of the best trials, and the student's preset, in full with --seeds seeds, and compare them on the
    evaluation split."""
    seeds: int = 3
    """Of --confirm and --apply."""
    apply: str | None = None
    """best, or a trial's number: a full run of distill.run, or of teacher.finetune, with its settings, and its model
    folder."""
    speed: bool = True
    """Measure latency and memory in the run of --apply, which takes about a minute."""

    def __post_init__(self) -> None:
        if self.confirm < 0 or self.seeds < 1:
            raise UserError("--confirm: expected 0 or more; --seeds: expected at least 1")
        if self.apply not in (None, "best") and not str(self.apply).isdecimal():
            raise UserError(f"--apply {self.apply}: expected best, or the number of a trial")
        if self.apply is None and not self.speed:
            raise UserError("--no-speed is for the run of --apply: give that too, or leave it out")
        if self.apply is None and not self.confirm and self.seeds != type(self).seeds:
            raise UserError(f"--seeds {self.seeds} is for --confirm and --apply: give one of them too, or leave it out")


@dataclass(frozen=True, kw_only=True)
class StudyConfig:
    """Search shapes, losses and rates for the best student under a limit of time or size.

    The same command again goes on with its study; with more --trials it is made longer.
    """

    target: Literal["student", "teacher"] = "student"
    """What is searched: a student, or how its teacher is fine-tuned (rate, epochs, batch, layer decay, head rate,
    freezing, dropout, pooling), for accuracy alone, which is looked at while it learns."""
    student: str = "tiny"
    """The student whose variants are tried: tiny, distil or albert."""
    teacher: str = "auto"
    """auto (minilm if installed, else scratch), minilm, scratch, a model folder, or a hub id."""
    name: str | None = None
    """Name of the study, its folder under --runs and its page under --reports; None: from task and student."""
    storage: str | None = None
    """Where trials are kept: an SQLAlchemy URL, or journal:FILE. None: runs/NAME/study.db."""
    workers: int = 0
    """Trials, or models of --confirm and --apply, trained side by side; 0: one a core."""
    recipe: str = OWN
    """The recipe that trials vary."""
    start: str | None = None
    """First weights, as for distill.run. None: the student's own."""
    class_weights: Literal["none", "balanced"] = "none"
    """Of the students' loss on labels, as for distill.run; the teacher's are --teacher-class-weights."""
    precision: str = "auto"
    """Of training: auto, fp32 or bf16."""
    runs: Path = Path("runs")
    """Folder for runs and teachers."""
    reports: Path = Path("reports")
    """Folder for the pages."""
    data: TaskOptions = field(default_factory=TaskOptions)
    searching: SearchOptions = field(default_factory=SearchOptions)
    after: AfterOptions = field(default_factory=AfterOptions)
    finetuning: FinetuneOptions = field(default_factory=FinetuneOptions)
    scratch: ScratchOptions = field(default_factory=ScratchOptions)

    def __post_init__(self) -> None:
        if self.student not in STUDENTS:
            raise unknown_name("student", self.student, STUDENTS)
        if self.recipe not in (OWN, *RECIPES):
            raise unknown_name("recipe", self.recipe, (OWN, *RECIPES))
        self.scratch.refuse_unless_scratch(self.teacher, "--teacher")
        self._check_target()
        if self.workers < 0:
            raise UserError(f"--workers {self.workers}: expected 0 or more")
        name = self.name
        if name is not None and (name != Path(name).name or name.startswith(".") or len(name) > LONGEST_NAME):
            raise UserError(f"--name {name[:100]}: expected a plain folder name of up to {LONGEST_NAME} letters")
        if name in ("index", "teachers"):
            raise UserError(f"--name {name} is taken by the tools: choose another one")

    def _check_target(self) -> None:
        searching = self.searching
        if self.target == "student":
            if searching.pruner == "none" and searching.rungs not in (1, type(searching).rungs):
                raise UserError(
                    f"--rungs {searching.rungs} is where trials may stop, and --pruner none stops none: leave one out"
                )
            return
        for name in ("max_latency_ms", "max_size_mb", "min_retained"):
            if getattr(searching, name) is not None:
                raise UserError(f"--{name.replace('_', '-')} is for students: leave it out with --target teacher")
        if searching.objectives != ("accuracy",):
            raise UserError(
                f"--target teacher is searched for accuracy alone: leave --objective {searching.objective} out"
            )
        if not self.after.speed:
            raise UserError("--no-speed is for students: a teacher is not measured, leave it out with --target teacher")
        if not self.after.confirm and self.after.seeds != type(self.after).seeds:
            raise UserError(f"--seeds {self.after.seeds} is for --confirm with --target teacher: leave it out")
        for name in ("student", "recipe", "start", "class_weights"):
            if getattr(self, name) != getattr(type(self), name):
                flag = name.replace("_", "-")
                raise UserError(f"--{flag} {getattr(self, name)} is for students: leave it out with --target teacher")

    @property
    def searched(self) -> str:
        """The student, or "teacher"."""
        return self.student if self.target == "student" else "teacher"

    @property
    def processes(self) -> int:
        return self.workers or usable_cores()
