"""The options of `distill.compress`."""

from dataclasses import dataclass, field
from pathlib import Path

from common.errors import UserError
from distill.compress_options import CompressOptions
from teacher.options import TaskOptions


@dataclass(frozen=True, kw_only=True)
class CompressConfig:
    """Make a finished model smaller and faster, and measure it after every step.

    The same command again goes on with what was stopped, and does nothing twice.
    """

    model: str
    """A model folder with a head that is trained for the task, such as runs/NAME/tiny/seed-0/model."""
    teacher: str | None = None
    """A fine-tuned model of the task: recovery learns its answers, and the table compares with it. None: the model
    itself."""
    out: Path | None = None
    """Run folder. None: by task and model, under runs; other settings get a folder of their own."""
    reports: Path = Path("reports")
    """Folder for the pages."""
    data: TaskOptions = field(default_factory=TaskOptions)
    compress: CompressOptions = field(default_factory=CompressOptions)
    precision: str = "auto"
    """Of recovery: auto (bf16 where the processor multiplies it natively), fp32 or bf16."""
    checkpoint_every: int = 200
    """Steps between checkpoints."""
    seed: int = 0
    """Draws the order of rows in recovery, and the random control of --importance."""
    speed: bool = True
    """Measure latency, which takes about a minute."""

    def __post_init__(self) -> None:
        problems = []
        if not self.compress.anything:
            problems.append("nothing to do: give at least one of --trim-vocabulary, --prune 0.5, --onnx, --int8")
        if self.checkpoint_every < 1:
            problems.append(f"--checkpoint-every {self.checkpoint_every}: expected at least 1 step")
        if self.seed < 0:
            problems.append(f"--seed {self.seed}: expected 0 or more")
        if problems:
            raise UserError("; ".join(problems))
