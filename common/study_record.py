"""The record of a study: what `distill.study` writes, and `reports` makes a page from. JSON, without NaN."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.bootstrap import Interval
from common.files import write_json
from common.provenance import Provenance
from common.schema import read_record

SCHEMA_VERSION = 1

FILE = "study.json"
"""The record's name in the folder of its study."""


@dataclass(frozen=True, kw_only=True)
class TrialRow:
    """One trial."""

    number: int
    state: str
    """ "complete", "pruned", "failed", "running" or "waiting". """
    settings: dict[str, Any]
    """Every part of the space with its value."""
    score: float | None
    """The task's metric on the selection split, after the whole training; None where it did not come so far."""
    rungs: tuple[float, ...]
    """The same at each rung."""
    latency_ms: float | None
    size_mb: float | None
    seconds: float | None
    within: bool
    """Finished, and within all limits."""
    on_front: bool
    """No other trial within the limits is as good in every objective and better in one."""
    reason: str | None
    """Why it ended early, in words."""


@dataclass(frozen=True, kw_only=True)
class FinalRow:
    """A student trained in full with several seeds, on the evaluation split."""

    name: str
    trial: int | None
    """None for the preset."""
    value: float
    """Mean over seeds."""
    spread: float | None
    by_seed: dict[str, float]
    latency_ms: float
    """Measured in turns with the other rows: the median."""
    size_mb: float
    against_preset: Interval | None
    """This row minus the preset, over paired examples and seeds."""
    folder: str
    """Of the first seed's model."""
    p95_ms: float | None = None
    """Of the same measurement: by how much it scattered; None in records of before, as the next."""
    repeats: int | None = None
    """How often it was timed."""


@dataclass(frozen=True, kw_only=True)
class StudyRecord:
    """Everything about one study."""

    schema_version: int = SCHEMA_VERSION
    name: str
    provenance: Provenance
    target: str = "student"
    """What was searched: "student", or "teacher" for how one is fine-tuned."""
    student: str
    """Its name; "teacher" where that is what was searched."""
    task: str
    metric: str
    higher_is_better: bool
    rows: dict[str, int]
    """Split name to its number of examples."""
    fingerprint: str
    teacher: str
    """Where it comes from, in words."""
    teacher_score: float | None
    """On the selection split; None where the teacher is what was searched."""
    objectives: tuple[str, ...]
    limits: dict[str, float]
    """ "latency, ms", "size, MB" and "share of the teacher" to their values, where given."""
    latency_length: int
    """Pieces of the text that latency was measured on, at batch 1 in one thread."""
    shares: tuple[float, ...]
    """Length of each rung, as a share of a trial's training, or where a teacher's one training is looked at."""
    space: dict[str, str]
    """Part to its values, in words."""
    trials: tuple[TrialRow, ...]
    retried: int
    """Attempts that were cut off and begun again; they are not among the trials."""
    importances: dict[str, float]
    """Part to its share of what the score depends on (PED-ANOVA, arXiv 2304.10255); empty with too few trials."""
    chosen: int | None
    """The number of the trial chosen; None where none is within the limits."""
    finals: tuple[FinalRow, ...] = ()

    def save(self, path: Path) -> None:
        """Write as JSON, atomically."""
        write_json(path, dataclasses.asdict(self))

    @classmethod
    def load(cls, path: Path) -> "StudyRecord":
        """Read a record; raises UserError as `common.schema.read_record` does."""
        return read_record(cls, path, version=SCHEMA_VERSION)
