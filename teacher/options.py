"""Groups of command-line options that several commands share."""

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from common.errors import UserError
from teacher.data import TaskData, load_task
from teacher.labels import TEXTS
from teacher.tasks import TASKS
from teacher.tasks.long_texts import WAYS
from teacher.tasks.texts import TextTask

SHORTEST = 8
"""Pieces, the least that --max-length may be."""


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """What to learn, and from which data."""

    task: str = "pydocs"
    """pydocs, pydocs-pair, a GLUE name (sst2, cola, mrpc, rte, stsb, ...), a hub id, or a tsv/csv/jsonl/json file or
    folder: texts with labels, tagged words, questions with answers (SQuAD), choices (SWAG)."""
    data_dir: Path | None = None
    """Folder with GLUE's files, for GLUE names without a network."""
    rows: str = "default"
    """Training rows: a number, "all", or "default" (all of a file, 12000 of pydocs)."""
    text_column: str | None = None
    """Column with the text (name, or number from 1 in a file without header)."""
    pair_column: str | None = None
    """Column with the second text."""
    label_column: str | None = None
    """Column with the label; several columns of 0 and 1, as in a,b,c, are labels of which a text may have any."""
    kind: str = "auto"
    """auto (by the labels), classification, regression, or multilabel: labels in one column, with | or ; or , between.
    """
    max_length: int = 128
    """Longest input in pieces; longer texts are cut, and counted. Unless another than 128 is given, a fine-tuned model
    that is learned from or made smaller decides."""
    long: str = "truncate"
    """What becomes of longer single texts: truncate, head+tail (the first quarter and the end), or windows (all
    of it, in overlapping parts whose scores are averaged)."""
    stride: int | None = None
    """Pieces that neighbouring windows share, for questions and --long windows; None: a third of --max-length."""
    data_seed: int = 0
    """Draws the splits and the rows where the data does not fix them."""

    def __post_init__(self) -> None:
        if self.rows not in ("default", "all") and not (self.rows.isdigit() and int(self.rows) > 0):
            raise UserError(f"--rows {self.rows}: expected a number above 0, 'all' or 'default'")
        if self.data_seed < 0:
            raise UserError(f"--data-seed {self.data_seed}: expected 0 or more")
        if not SHORTEST <= self.max_length <= 8192:
            raise UserError(f"--max-length {self.max_length}: expected {SHORTEST} to 8192 pieces")
        if self.long not in WAYS:
            raise UserError(f"--long {self.long}: expected {', '.join(WAYS)}")
        if self.stride is not None and not 0 <= self.stride <= self.max_length // 3:
            raise UserError(
                f"--stride {self.stride}: expected 0 to {self.max_length // 3} pieces, a third of --max-length"
            )

    def load(self) -> TaskData:
        """Read and check the data."""
        rows: int | Literal["all"] | None
        rows = None if self.rows == "default" else "all" if self.rows == "all" else int(self.rows)
        data = load_task(
            self.task,
            rows=rows,
            data_dir=self.data_dir,
            text_column=self.text_column,
            pair_column=self.pair_column,
            label_column=self.label_column,
            kind=self.kind,
            seed=self.data_seed,
        )
        self._check_long(data)
        return dataclasses.replace(data, long=self.long, stride=self.stride)

    def _check_long(self, data: TaskData) -> None:
        if self.long != "truncate" and (not issubclass(TASKS[data.kind], TextTask) or data.paired):
            raise UserError(f"--long {self.long} is for classes, numbers or labels of single texts: leave it out")
        if self.stride is not None and self.long != "windows" and data.kind not in TEXTS:
            raise UserError(
                f"--stride {self.stride} is for questions, and for --long windows: give that too, or leave --stride out"
            )


@dataclass(frozen=True, kw_only=True)
class FinetuneOptions:
    """How the teacher is fine-tuned."""

    teacher_learning_rate: float = 1e-4
    """Peak rate of AdamW."""
    teacher_epochs: float = 3.0
    """Passes over the training rows."""
    teacher_batch: int = 32
    """Examples a step."""
    teacher_batch_tokens: int | None = None
    """Pieces a step instead of examples: short texts train faster in larger batches, about 1,024 pieces on a CPU."""
    teacher_patience: int | None = None
    """Stop after so many evaluations (--teacher-evaluations an epoch) without a better selection metric."""
    teacher_seed: int = 0
    """Draws the new head, dropout and the order of rows."""
    teacher_layer_decay: float = 1.0
    """The rate of each layer as a share of that of the layer above it; the head has the full rate, embeddings the
    lowest. 0.8 to 0.95 are usual."""
    teacher_head_rate: float | None = None
    """Peak rate of a new head and its pooler; by default that of all."""
    teacher_pooling: Literal["cls", "mean", "max"] = "cls"
    """What the head reads: the state of [CLS], or the mean or maximum of the states of all pieces, [CLS] and [SEP]
    included. With mean and max the model gets a model type that transformers loads only beside this project."""
    teacher_freeze: int | None = None
    """The embeddings and so many of the lowest layers stay as they are; 0: the embeddings alone."""
    teacher_unfreeze: float | None = None
    """Epochs that the head learns alone, then with the last layer, then with the last two, and so on to the embeddings.
    What has not had its turn by the last epoch stays as it is."""
    teacher_accumulation: int = 1
    """Batches an optimizer step: with 4, --teacher-batch 8 learns as 32 do, in a quarter of the memory."""
    teacher_activation_checkpointing: bool = False
    """Compute what is inside of each layer once more on the way back instead of keeping it: less memory, a third more
    time."""
    teacher_class_weights: Literal["none", "balanced"] = "none"
    """balanced: an example (of tags: a word) counts the more the rarer its class is, so that all classes count the
    same."""
    teacher_evaluations: int = 1
    """Times an epoch that the selection metric is computed, and the weights are kept if it is the best so far."""
    teacher_adapter: Literal["none", "lora"] = "none"
    """lora: small matrices beside the encoder's linear layers learn, with the head, and are merged into the weights in
    the end (extra peft). They need a higher rate, about 1e-3."""
    teacher_adapter_rank: int = 8
    """Rank of these matrices."""
    teacher_dropout: float | None = None
    """Share of units that are dropped while it learns. None: as its configuration says, mostly 0.1."""

    FIRST: ClassVar[int] = 6
    """Options that a key over all always had; those after them are in it where they are not at their default."""

    def deciding(self) -> dict[str, Any]:
        """The options by name, without the newer ones that are at their default: what keys are made from."""
        fields = dataclasses.fields(self)
        values = {field.name: getattr(self, field.name) for field in fields}
        newer = {field.name for field in fields[self.FIRST :] if values[field.name] == field.default}
        return {name: value for name, value in values.items() if name not in newer}

    def useless(self, why: str) -> tuple[str, ...]:
        """What a reader should know where nothing is fine-tuned: the options that were given for it all the same."""
        values = {entry: getattr(self, entry.name) for entry in dataclasses.fields(self)}
        given = [f"--{entry.name.replace('_', '-')}" for entry, value in values.items() if value != entry.default]
        return (f"{why}: without effect {'are' if len(given) > 1 else 'is'} {', '.join(given)}.",) if given else ()

    def __post_init__(self) -> None:
        problems = self._practice_problems()
        if not 0 < self.teacher_learning_rate < math.inf:
            problems.append(f"--teacher-learning-rate {self.teacher_learning_rate}: expected a number above 0")
        if not 0 < self.teacher_epochs < math.inf:
            problems.append(f"--teacher-epochs {self.teacher_epochs}: expected a number above 0")
        if self.teacher_batch < 1:
            problems.append(f"--teacher-batch {self.teacher_batch}: expected at least 1")
        if self.teacher_batch_tokens is not None and self.teacher_batch_tokens < 1:
            problems.append(f"--teacher-batch-tokens {self.teacher_batch_tokens}: expected at least 1")
        if self.teacher_patience is not None and self.teacher_patience < 1:
            problems.append(f"--teacher-patience {self.teacher_patience}: expected at least 1")
        if self.teacher_seed < 0:
            problems.append(f"--teacher-seed {self.teacher_seed}: expected 0 or more")
        if problems:
            raise UserError("; ".join(problems))

    def _practice_problems(self) -> list[str]:
        problems = []
        if not 0 < self.teacher_layer_decay <= 1:
            problems.append(f"--teacher-layer-decay {self.teacher_layer_decay}: expected above 0 to 1")
        if self.teacher_head_rate is not None and not 0 < self.teacher_head_rate < math.inf:
            problems.append(f"--teacher-head-rate {self.teacher_head_rate}: expected a number above 0")
        if self.teacher_dropout is not None and not 0 <= self.teacher_dropout < 1:
            problems.append(f"--teacher-dropout {self.teacher_dropout}: expected 0 to below 1")
        if self.teacher_freeze is not None and self.teacher_freeze < 0:
            problems.append(f"--teacher-freeze {self.teacher_freeze}: expected 0 or more")
        if self.teacher_unfreeze is not None and not 0 < self.teacher_unfreeze < math.inf:
            problems.append(f"--teacher-unfreeze {self.teacher_unfreeze}: expected a number above 0")
        counts = {
            "--teacher-accumulation": self.teacher_accumulation,
            "--teacher-evaluations": self.teacher_evaluations,
            "--teacher-adapter-rank": self.teacher_adapter_rank,
        }
        problems += [f"{name} {count}: expected at least 1" for name, count in counts.items() if count < 1]
        if self.teacher_adapter == "none" and self.teacher_adapter_rank != type(self).teacher_adapter_rank:
            problems.append(f"--teacher-adapter-rank {self.teacher_adapter_rank} is for --teacher-adapter lora")
        return problems
