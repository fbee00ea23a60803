"""The record of an ablation of pretraining: what `teacher.ablate` writes, and `reports` makes a page from.

It holds everything that the page shows. Teacher and reports import neither each other, so what they agree on lies
here. It is JSON, without NaN, with a schema version of its own.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from common.bootstrap import Interval
from common.files import write_json
from common.provenance import Provenance
from common.schema import read_record

SCHEMA_VERSION = 1

FILE = "ablation.json"
"""The record's name in the folder of its run."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """A held-out figure over the course of a pretraining."""

    name: str
    """ "mlm_loss" (nats), "mlm_accuracy", "nsp_accuracy", "ltr_loss", ... """
    steps: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Pretraining:
    """How the encoders of a row were pretrained; means over seeds."""

    encoder: str
    """The first seed's folder, in the folder of the run: rows that share it have one pretraining."""
    steps: float
    tokens: float
    """Real pieces, specials counted, padding not."""
    seconds: float
    """Of training, held-out evaluations among it, over all sittings."""
    parameters: int
    """With the heads of pretraining."""
    unigram_loss: float
    """Entropy of the pieces' frequencies, in nats: the loss of a model that knows no context."""
    held_out: dict[str, float]
    """Figures on held-out text after the last step, named as in Series; the share of the more frequent answer is
    NAME_majority."""
    curves: tuple[Series, ...]
    """Of the first seed."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One variant of a study."""

    name: str
    description: str
    """What was done, in words."""
    value: float
    """Mean over seeds of the task's main metric on the evaluation split."""
    spread: float | None
    """Standard deviation over seeds (n-1); None with one seed."""
    by_seed: dict[str, float]
    metrics: dict[str, float]
    """Every metric of the task, mean over seeds."""
    against_first: Interval | None
    """This row minus the study's first, over paired examples and seeds; None for the first."""
    task_seconds: float
    """Of learning the task, mean over seeds."""
    pretraining: Pretraining
    notes: tuple[str, ...] = ()
    """What its pretraining did not learn, in words."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """Rows that differ in one thing."""

    name: str
    """ "objective", "depth", "masking" or "features". """
    title: str
    question: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AblationTask:
    """The task that all rows learn."""

    name: str
    kind: str
    classes: int
    """0 for a regression."""
    metric: str
    higher_is_better: bool
    rows: dict[str, int]
    """Split name ("train", "select", "evaluate") to its number of examples."""
    origins: dict[str, str]
    majority: float
    """The metric of always answering the most frequent training class (the training mean for a regression)."""
    fingerprint: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AblationRecord:
    """Everything about one run of `teacher.ablate`."""

    schema_version: int = SCHEMA_VERSION
    name: str
    """Its folder, and its page under reports/."""
    provenance: Provenance
    task: AblationTask
    corpus: str
    corpus_fingerprint: str
    budget: str
    """What is equal for all encoders, in a sentence."""
    studies: tuple[Study, ...]
    notes: tuple[str, ...] = ()
    """What a reader should know first, in words."""

    @property
    def seeds(self) -> int:
        return len(self.provenance.seeds)

    def save(self, path: Path) -> None:
        """Write as JSON, atomically."""
        write_json(path, dataclasses.asdict(self))

    @classmethod
    def load(cls, path: Path) -> "AblationRecord":
        """Read a record; raises UserError as `common.schema.read_record` does."""
        return read_record(cls, path, version=SCHEMA_VERSION)
