"""The record of a run: the one contract between running and showing.

A record holds everything that a report shows; pages are made from records alone. It is JSON, without NaN, with a schema
version. `Record.load` refuses what it does not know, by name.
"""

import dataclasses
import json
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common.errors import UserError, unknown_name
from common.files import write_json

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What is needed to make the figures again."""

    command: str
    """The command line as typed."""
    created: str
    """UTC, ISO 8601."""
    config: dict[str, Any]
    """Every option of the run with its value, nested by part."""
    versions: dict[str, str]
    """Package name to version."""
    git_commit: str | None
    """None outside a git checkout; ends in "+changes" where the tree was not clean."""
    cpu: str
    instruction_sets: tuple[str, ...]
    """Those that matter here: avx2, avx512f, avx512_bf16, avx512_vnni, amx_bf16, ..."""
    cores: int
    threads: int
    """Threads that training used, per process."""
    memory_bytes: int
    precision: str
    """Of training: "fp32" or "bf16"."""
    seeds: tuple[int, ...]
    wall_seconds: float


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
class Interval:
    """A paired-bootstrap interval of a difference, in the metric's own unit (0.01 = one point of accuracy)."""

    difference: float
    low: float
    high: float
    level: float = 0.95


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
    failures: tuple[str, ...] = ()
    """What did not work in this run, in words; a report shows it first."""
    notes: tuple[str, ...] = ()
    """What a reader should know, in words: "distillation adds nothing here: ..."."""

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
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"{path} is not a readable record: {error}") from error
        if not isinstance(value, dict) or "schema_version" not in value:
            raise UserError(f"{path} is not a record: a JSON object with schema_version was expected")
        if value["schema_version"] != SCHEMA_VERSION:
            raise UserError(
                f"{path} has record schema {value['schema_version']}, this version reads {SCHEMA_VERSION}: "
                "run the command again"
            )
        record = _decode(cls, value, str(path))
        assert isinstance(record, cls)
        return record


def _decode(kind: Any, value: Any, where: str) -> Any:
    """`value` from JSON as `kind`: dataclasses, tuples, dicts and unions with None, recursively."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _decode_dataclass(kind, value, where)
    if origin is tuple:
        _expect(isinstance(value, list), "a list", value, where)
        return tuple(_decode(arguments[0], item, f"{where}[{index}]") for index, item in enumerate(value))
    if origin is dict:
        _expect(isinstance(value, dict), "an object", value, where)
        return {key: _decode(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    if origin in (types.UnionType, typing.Union):
        inner = next(argument for argument in arguments if argument is not type(None))
        return None if value is None else _decode(inner, value, where)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is not Any:
        _expect(isinstance(value, kind), kind.__name__, value, where)
    return value


def _decode_dataclass(kind: type, value: Any, where: str) -> Any:
    _expect(isinstance(value, dict), "an object", value, where)
    fields = {entry.name: entry for entry in dataclasses.fields(kind)}
    hints = typing.get_type_hints(kind)
    for name in value:
        if name not in fields:
            raise UserError(f"{where}: {unknown_name('field', name, fields)}")
    for name, entry in fields.items():
        required = entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING
        if required and name not in value:
            raise UserError(f"{where}: field {name!r} is missing")
    return kind(**{name: _decode(hints[name], item, f"{where}.{name}") for name, item in value.items()})


def _expect(condition: bool, expected: str, value: Any, where: str) -> None:
    if not condition:
        raise UserError(f"{where}: expected {expected}, found {type(value).__name__} {str(value)[:60]!r}")
