"""What one student's training is told: the job, and what all jobs of a run have in common."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from distill.cache import Insides
from distill.committee import Voice
from distill.stages import Stage
from students.presets import StudentConfig
from teacher.data import TaskData


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What all jobs of a run have in common; small enough to be sent to another process."""

    data: TaskData
    teacher: str
    """Folder of the fine-tuned teacher."""
    teacher_origin: str
    """Where it comes from, in words."""
    teacher_logits: Mapping[str, Path]
    """Set of examples ("labeled", ...) to its logits on them, .npy."""
    voices: tuple[Voice, ...]
    """Of the teachers whose logits these are."""
    carried: bool = False
    """Another teacher than the first has other pieces: logits are NaN where one of them has no answer."""
    outputs_only: bool = False
    """The teacher is a file of outputs: a row of NaN is an example that it has no answer to."""
    insides: Insides | None = None
    """The teacher's hidden states, queries and keys on the training split, where they are kept."""
    sets: Mapping[str, Path]
    """Set of examples without labels to its folder."""
    pretrained: str | None
    """The teacher before fine-tuning; None where there is none."""
    student_tokenizer: str | None = None
    """Folder or hub id of the students' tokenizer; None: they read as the teacher does."""
    text: str
    """General text: "task", "pydocs", a file, a folder or hub:ID."""
    text_length: int
    max_length: int
    precision: str
    checkpoint_every: int
    class_weights: str = "none"
    """What the labels' classes count in the students' loss on them: "none" or "balanced"."""
    gradient_norms: bool = False
    """Write down the norm of each loss term's gradient now and then."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One student, one seed."""

    student: StudentConfig
    stages: tuple[Stage, ...]
    seed: int
    folder: Path
    twin: bool
    recipe: str | None = None
    """Where several are compared; a twin belongs to none."""

    @property
    def name(self) -> str:
        """For progress lines: "tiny, seed 0"."""
        return f"{self.row}, seed {self.seed}"

    @property
    def row(self) -> str:
        """Its name among the models of the run, without the seed."""
        if self.twin:
            return f"{self.student.name} without distillation"
        return self.student.name if self.recipe is None else f"{self.student.name} ({self.recipe})"

    @property
    def model_folder(self) -> Path:
        return self.folder / "model"

    @property
    def answers(self) -> Path:
        return self.folder / "answers" / "evaluate.npy"

    @property
    def finished(self) -> bool:
        return (self.folder / "job.json").is_file()

    def outcomes(self) -> list[dict]:
        """What every stage came to, as stage.json has it."""
        return [
            json.loads((self.folder / stage.name / "stage.json").read_text(encoding="utf-8")) for stage in self.stages
        ]
