"""The record of a run: the one contract between running and showing.

A record holds everything that a report shows; pages are made from records alone. It is JSON, without NaN, with a schema
version. `Record.load` refuses what it does not know, by name.
"""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common.bootstrap import Interval
from common.errors import unknown_name
from common.files import write_json
from common.provenance import Provenance
from common.schema import read_record

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class TaskCard:
    """The task and its data."""

    name: str
    kind: str
    """A key of teacher.tasks.TASKS: "classification" or "regression"."""
    labels: tuple[str, ...]
    """Class names in index order; empty for regression."""
    metric: str
    """The one metric that selects checkpoints and heads the tables."""
    higher_is_better: bool
    rows: dict[str, int]
    """Split name ("train", "select", "evaluate") to its number of examples."""
    origins: dict[str, str]
    """Split name to where it came from: "dev.tsv", "held out from train.tsv, seed 0"."""
    majority: float | None
    """The metric of always answering the most frequent training class (the training mean for regression)."""
    fingerprint: str
    """Hash over rows and, for pydocs, over packages and their versions."""
    sources: dict[str, str]
    """Files and checksums, or packages and versions."""
    notes: tuple[str, ...] = ()
    """What loading did that a reader should know: duplicates removed, texts truncated, ..."""


@dataclass(frozen=True, kw_only=True)
class Quality:
    """How good one model is on the evaluation split, in fractions (0.86); over seeds where there are several."""

    split: str
    n: int
    metric: str
    value: float
    """Mean over seeds of the main metric."""
    spread: float | None
    """Standard deviation over seeds (n-1); None with one seed."""
    by_seed: dict[str, float]
    """Seed to the main metric."""
    metrics: dict[str, float]
    """Every metric of the task, mean over seeds."""
    retained: float | None
    """value / the teacher's value; None for the teacher itself and where the teacher's value is not positive."""
    against_teacher: Interval | None
    """Model minus teacher, over paired examples and seeds."""
    mcnemar_p: float | None
    """Exact McNemar test of the first seed's predictions against the teacher's; classification only."""
    per_class: tuple["ClassRow", ...] = ()
    against_twin: Interval | None = None
    """A student minus the same student without distillation, over paired examples and seeds."""


@dataclass(frozen=True, kw_only=True)
class ClassRow:
    """One class in the per-class table (first seed)."""

    label: str
    n: int
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, kw_only=True)
class Size:
    """Parameters, shared ones once. FLOPs of one example of 128 tokens: multiply-add = 2, attention included."""

    parameters: int
    embedding_parameters: int
    bytes_on_disk: int
    """Of the weights file."""
    flops: int


@dataclass(frozen=True, kw_only=True)
class Latency:
    """One cell of the speed table: milliseconds a batch."""

    runtime: str
    """ "torch 2.13.0", later also "onnxruntime 1.32". """
    precision: str
    batch: int
    length: int
    threads: int
    p50_ms: float
    p95_ms: float
    repeats: int


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Measured interleaved with the teacher, after warm-up."""

    latency: tuple[Latency, ...]
    peak_memory_bytes: int | None
    """Of a fresh process that loads the model and runs one batch of 32 x 128, above the same process without a
    model."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One series of a stage: a loss term, the learning rate, the selection metric, a gradient norm."""

    stage: str
    name: str
    steps: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class StageCard:
    """One finished stage of one model (first seed)."""

    name: str
    description: str
    """One sentence: which teacher, which data, which losses."""
    losses: dict[str, float]
    """Term to weight, at the first step where it is scheduled."""
    steps: int
    epochs: float
    seconds: float
    examples: int
    learning_rate: float
    selected_step: int | None
    """The step whose weights were kept; None where the last were."""
    schedules: dict[str, str] = field(default_factory=dict)
    """Term, or "temperature", to how it changes over the stage, in words: "1 to 0, linear"."""


@dataclass(frozen=True, kw_only=True)
class LayerDistance:
    """How far a student layer is from the teacher layer it was mapped to, on the evaluation split (first seed)."""

    student_layer: int
    """0 is the embedding output."""
    teacher_layer: int
    hidden: float | None
    """1 - linear CKA of the hidden states over real tokens, 0 = same up to rotation and scale; works for unequal
    widths."""
    attention: float | None
    """Mean Jensen-Shannon divergence of the head-averaged attention distributions, in nats; None for layer 0."""


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """One row of the summary table."""

    name: str
    """ "teacher", "tiny", "tiny without distillation", "TF-IDF + logistic regression". """
    role: str
    """ "teacher", "student", "twin" (the same student without distillation) or "baseline". """
    twin_of: str | None = None
    """The student's name, or `student` where several recipes make it."""
    student: str | None = None
    """What a student is called whatever its recipe, where several are compared: they have one twin."""
    architecture: dict[str, Any] = field(default_factory=dict)
    """family, layers, hidden, heads, ffn, ...: whatever describes it."""
    start: str | None = None
    """Where its first weights came from, in words."""
    quality: Quality
    size: Size | None = None
    """None for a model that is no neural network."""
    speed: Speed | None = None
    stages: tuple[StageCard, ...] = ()
    curves: tuple[Curve, ...] = ()
    layer_distances: tuple[LayerDistance, ...] = ()
    folder: str | None = None
    """The model folder, relative to the run folder."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AugmentedText:
    """A training text and some of the texts that were made from it."""

    text: str
    pair: str | None
    versions: tuple[str, ...]
    """The side that was changed; the other is the original's."""


@dataclass(frozen=True, kw_only=True)
class TransferCard:
    """A set of examples without labels that students learned the teacher's answers on."""

    name: str
    """ "augmented" or "unlabeled". """
    rows: int
    origin: str
    """Where they came from, in words."""
    preview: tuple[AugmentedText, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CompressionRow:
    """One artifact of a chain on one runtime. Ratios are to the first row of the chain."""

    step: str
    """ "teacher", "pruned 50 %", "ONNX", "int8". """
    role: str
    """ "reference" (the first row), "baseline" (the reference on another runtime) or "chain". """
    runtime: str
    precision: str
    value: float
    """The main metric on the evaluation split, by this runtime."""
    retained: float | None
    """value / the first row's; None for the first row, or where that is not positive."""
    parameters: int
    bytes_on_disk: int
    """Of the whole folder."""
    latency: tuple[Latency, ...] = ()
    """On one thread, all rows timed in turns."""
    seconds: float | None = None
    """That the step took; None for what was there before."""
    folder: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Compression:
    """What one model was put through, step by step."""

    model: str
    """Whose chain it is."""
    rows: tuple[CompressionRow, ...]
    max_drop: float = 0.01
    """What a faster form of the last model may lose of the metric against its own fp32 form in torch."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """Everything about one run."""

    schema_version: int = SCHEMA_VERSION
    name: str
    """The run's name: its folder under runs/ and its page under reports/."""
    provenance: Provenance
    task: TaskCard
    models: tuple[ModelCard, ...]
    transfer: tuple[TransferCard, ...] = ()
    """What was distilled on beside the labelled rows."""
    compression: tuple[Compression, ...] = ()
    """What models were put through before they are shipped: a chain each."""
    failures: tuple[str, ...] = ()
    """What did not work in this run, in words; a report shows it first."""
    notes: tuple[str, ...] = ()
    """What a reader should know, in words: "several texts were cut: ..."."""

    def model(self, name: str) -> ModelCard:
        for card in self.models:
            if card.name == name:
                return card
        raise unknown_name("model in the record", name, [card.name for card in self.models])

    def save(self, path: Path) -> None:
        """Write as JSON, atomically."""
        write_json(path, dataclasses.asdict(self))

    @classmethod
    def load(cls, path: Path) -> "Record":
        """Read a record.

        Raises:
            UserError: not JSON, another schema version, an unknown or a missing field; the message names file and
            field.
        """
        return read_record(cls, path, version=SCHEMA_VERSION)
