"""Groups of command-line options that several commands share."""

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from common.errors import UserError
from teacher.data import TaskData, load_task
from teacher.tasks import TASKS
from teacher.tasks.long_texts import WAYS
from teacher.tasks.texts import TextTask


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """What to learn, and from which data."""

    task: str = "pydocs"
    """pydocs, pydocs-pair, a GLUE name (sst2, cola, mrpc, rte, stsb, ...), a hub id, or a tsv/csv/jsonl file or
    folder."""
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
    """Longest input in pieces; longer texts are cut, and counted."""
    long: str = "truncate"
    """What becomes of longer single texts: truncate, head+tail (the first quarter and the end), or windows (all
    of it, in overlapping parts whose scores are averaged)."""
    stride: int | None = None
    """Pieces that neighbouring windows share, for --long windows; None: a third of --max-length."""
    data_seed: int = 0
    """Draws the splits and the rows where the data does not fix them."""

    def __post_init__(self) -> None:
        if self.rows not in ("default", "all") and not (self.rows.isdigit() and int(self.rows) > 0):
            raise UserError(f"--rows {self.rows}: expected a number above 0, 'all' or 'default'")
        if self.data_seed < 0:
            raise UserError(f"--data-seed {self.data_seed}: expected 0 or more")
        if not 8 <= self.max_length <= 8192:
            raise UserError(f"--max-length {self.max_length}: expected 8 to 8192 pieces")
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
        if self.long != "truncate" and (
            not issubclass(TASKS[data.kind], TextTask) or data.splits["train"][0].pair is not None
        ):
            raise UserError(f"--long {self.long} is for classes, numbers or labels of single texts: leave it out")
        if self.stride is not None and self.long != "windows":
            raise UserError(f"--stride {self.stride} is for --long windows: give it too, or leave --stride out")


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
    """Stop after so many evaluations (one an epoch) without a better selection metric."""
    teacher_seed: int = 0
    """Draws the new head, dropout and the order of rows."""

    def __post_init__(self) -> None:
        problems = []
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
