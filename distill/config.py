"""The options of the main command."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from transformers import BertConfig

from common.errors import UserError, unknown_name
from common.hardware import usable_cores
from distill.changes import ChangeOptions
from distill.committee import CommitteeOptions
from distill.compress_options import CompressOptions
from distill.recipes import OWN, RECIPES
from distill.transfer_options import TransferOptions
from students.presets import STARTS, STUDENTS, student_preset
from students.shape import ShapeOptions, alien_options
from teacher.options import FinetuneOptions, TaskOptions
from teacher.scratch_options import ScratchOptions


@dataclass(frozen=True, kw_only=True)
class DistilOptions:
    """How the students are made."""

    recipe: str = OWN
    """Stages and losses: fast (the student's own, in minutes), tinybert, distilbert or pkd (the papers' settings),
    minilmv2, or another student's name for its fast one; with --teacher-outputs fast is those and the labels. Several,
    separated by commas, are compared on as many steps as the first has, or in as much time."""
    equal: Literal["steps", "time"] = "steps"
    """What several recipes have in common with the first: optimizer steps, or training time; for that their stages are
    timed first."""
    ablate: bool = False
    """Train the recipe as it is, without each of its stages and without each of its losses, and compare them."""
    relation_heads: int | None = None
    """Heads that MiniLMv2's relations are split into; must divide the widths of student and teacher. None: the most, up
    to 48."""
    gradient_norms: bool = False
    """Also log the norm of each loss term's gradient to the student's weights, at one in a hundred steps."""
    start: str | None = None
    """First weights: prune for tiny, copy for distil, svd for albert; of each also embeddings (the teacher's table of
    pieces alone), random, and general with --student-from. None: the first of these, or embeddings where the teacher's
    layers are not of BERT's kind."""
    student_from: Path | None = None
    """Take shape and first weights from this folder, which python -m distill.general wrote; stages on general text are
    left out then."""
    student_tokenizer: str | None = None
    """Another tokenizer for the students: a folder, a hub id, or minilm. Their table of pieces is carried over from the
    teacher's; hidden states are compared over the parts of a text that both tokenizers cut alike, and losses between
    pieces (attention, relations) are refused. None: the teacher's, or the one in --student-from."""
    budget: float = 1.0
    """Length of every stage, as a multiple of the recipe's."""
    text: str = "auto"
    """General text for the first stage of tiny and tinybert: task (the training texts), pydocs, a file, a folder,
    hub:ID; auto is pydocs for the pydocs tasks, else task."""
    text_length: int = 64
    """Longest piece of general text, in pieces."""
    seeds: int = 1
    """How often each student is trained; mean and spread are reported."""
    twins: bool = True
    """Also train each student without distillation, from the same first weights for as many steps."""
    cache_gb: float = 6.0
    """Disk for the teacher's hidden states, queries and keys on the labelled rows while students are trained, GB: what
    several epochs, seeds or students look at is then computed once. 0: computed at every step."""
    jobs: int = 0
    """Students trained side by side, one thread each; 0: one a core."""

    def __post_init__(self) -> None:
        problems = []
        if not 0 < self.budget < math.inf:
            problems.append(f"--budget {self.budget}: expected a number above 0")
        if self.seeds < 1:
            problems.append(f"--seeds {self.seeds}: expected at least 1")
        if self.jobs < 0:
            problems.append(f"--jobs {self.jobs}: expected 0 or more")
        if not 0 <= self.cache_gb < math.inf:
            problems.append(f"--cache-gb {self.cache_gb}: expected 0 or more")
        problems += self._recipe_problems()
        if self.relation_heads is not None and self.relation_heads < 1:
            problems.append(f"--relation-heads {self.relation_heads}: expected at least 1")
        if self.text_length < 8:
            problems.append(f"--text-length {self.text_length}: expected at least 8 pieces")
        if problems:
            raise UserError("; ".join(problems))

    def _recipe_problems(self) -> list[str]:
        known = (OWN, *RECIPES)
        problems = [f"--recipe: {unknown_name('recipe', name, known)}" for name in self.recipes if name not in known]
        if not self.recipes:
            problems.append(f"--recipe: expected one or more of {', '.join(known)}")
        if self.ablate and len(self.recipes) > 1:
            problems.append("--ablate takes one recipe apart: give --recipe one name")
        if self.equal == "time" and len(self.recipes) < 2:
            problems.append("--equal time is for several recipes: give --recipe A,B, or leave it out")
        if len(set(self.recipes)) != len(self.recipes):
            problems.append(f"--recipe {self.recipe} names one twice")
        return problems

    @property
    def recipes(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.recipe.split(",") if name.strip())

    @property
    def in_common(self) -> str | None:
        """What compared recipes have in common; an ablation's are as long as what is left of them."""
        return None if self.ablate else self.equal

    @property
    def workers(self) -> int:
        """Processes for training students."""
        return self.jobs or usable_cores()


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """From a task and a teacher to compared students, with a report."""

    student: str = "tiny"
    """Students, separated by commas: tiny, distil, albert."""
    teacher: str = "auto"
    """auto (minilm if installed, else scratch), minilm, scratch (pretrained here first), a model folder, or a hub
    id."""
    name: str | None = None
    """Name of the run, its folder under --runs and its page under --reports; None: from task and students."""
    resume: bool = False
    """Go on with the newest unfinished run of these settings."""
    precision: str = "auto"
    """Of training: auto (bf16 where the processor multiplies it natively), fp32 or bf16. Results are measured in
    fp32."""
    checkpoint_every: int = 200
    """Steps between checkpoints."""
    speed: bool = True
    """Measure latency and memory of the teacher and each student, which takes about a minute."""
    runs: Path = Path("runs")
    """Folder for runs and teachers."""
    reports: Path = Path("reports")
    """Folder for the pages."""
    data: TaskOptions = field(default_factory=TaskOptions)
    distilling: DistilOptions = field(default_factory=DistilOptions)
    changes: ChangeOptions = field(default_factory=ChangeOptions)
    transfer: TransferOptions = field(default_factory=TransferOptions)
    finetuning: FinetuneOptions = field(default_factory=FinetuneOptions)
    scratch: ScratchOptions = field(default_factory=ScratchOptions)
    committee: CommitteeOptions = field(default_factory=CommitteeOptions)
    shape: ShapeOptions = field(default_factory=ShapeOptions)
    compress: CompressOptions = field(default_factory=CompressOptions)

    def __post_init__(self) -> None:
        for name in self.students:
            if name not in STUDENTS:
                raise unknown_name("student", name, STUDENTS)
        if not self.students:
            raise UserError("--student: expected one or more of " + ", ".join(STUDENTS))
        if self.checkpoint_every < 1:
            raise UserError(f"--checkpoint-every {self.checkpoint_every}: expected at least 1 step")
        if len(set(self.students)) != len(self.students):
            raise UserError(f"--student {self.student} names one twice")
        if self.committee.others and self.transfer.teacher_outputs:
            raise UserError(
                "--more-teachers and --teacher-outputs: give one of them; a file may hold a mean of outputs"
            )
        if self.changes.temperature is not None and self.committee.teacher_temperatures is not None:
            raise UserError("--temperature and --teacher-temperatures contradict each other: give one of them")
        self.scratch.refuse_unless_scratch(self.teacher, "--teacher")
        self._check_starts()

    def _check_starts(self) -> None:
        start, folder = self.distilling.start, self.distilling.student_from
        families = {name: student_preset(name, BertConfig()).family for name in self.students}
        if start == "general" and folder is None:
            raise UserError("--start general: give the student's folder with --student-from DIR")
        if folder is not None and self.distilling.student_tokenizer is not None:
            raise UserError("--student-from has a tokenizer of its own: leave out --student-tokenizer")
        others = self.shape.given + ([] if start in (None, "general") else [f"--start {start}"])
        if folder is not None and others:
            raise UserError(f"--student-from decides shape and first weights: leave out {', '.join(others)}")
        for name, family in families.items():
            if start is not None and start not in STARTS[family]:
                raise unknown_name(f"--start for {name}", start, STARTS[family])
        if self.compress.prune is not None and "albert" in families.values():
            raise UserError("--prune: the layers of albert share their weights and cannot be pruned: leave one out")
        if alien := alien_options(self.shape, families.values()):
            raise UserError(alien)

    @property
    def students(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.student.split(",") if name.strip())
