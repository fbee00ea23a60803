"""The chain that makes a model shippable, on SST-2: what each step keeps and saves, beside the goals.

`--teacher DIR --model DIR` takes a fine-tuned teacher and a student that was distilled from it. `--base` takes the
shapes of BERT-base and of a student of 4 layers of 312, both with random weights: speed and size alone count then.
"""

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification

from common.artifact import CardText, save
from common.command import run_command
from common.errors import UserError
from common.progress import say
from distill.compress import main as compress
from distill.compress_config import CompressConfig
from reports.compress_table import time_of
from reports.record import Compression, CompressionRow, Record
from teacher.options import TaskOptions
from teacher.sources import load_for_task, resolve
from teacher.tasks import task_for

LABELS = {"id2label": {0: "negative", 1: "positive"}, "label2id": {"negative": 0, "positive": 1}}
KEPT = 0.97
"""Share of the teacher's score that the smallest artifact has to keep."""


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A ratio of the first row, or of its int8 ONNX, to the artifact that is shipped."""

    words: str
    cell: tuple[int, int] | None
    """Batch and length; None: bytes on disk."""
    int8: bool
    at_least: float


GOALS = {
    "sst2": (
        Goal(words="smaller than the teacher's fp32 folder", cell=None, int8=False, at_least=25),
        Goal(words="times the speed of its torch fp32", cell=(1, 16), int8=False, at_least=15),
        Goal(words="times the speed of its own int8 ONNX", cell=(1, 16), int8=True, at_least=3),
    ),
    "base": (
        Goal(words="smaller than the fp32 folder", cell=None, int8=False, at_least=70),
        Goal(words="times the speed of torch fp32", cell=(1, 16), int8=False, at_least=130),
        Goal(words="times the speed of torch fp32", cell=(1, 128), int8=False, at_least=70),
        Goal(words="times the speed of its own int8 ONNX", cell=(1, 16), int8=True, at_least=20),
        Goal(words="times the speed of its own int8 ONNX", cell=(1, 128), int8=True, at_least=12),
    ),
}


def main() -> None:
    options = _options()
    teacher, model = _base_shapes(options) if options.base else (options.teacher, options.model)
    chain = shlex.split(options.chain)
    # Random weights have nothing to recover or to lose, and no gradient says what matters.
    without = ["--no-recovery", "--prune-steps", "1", "--importance", "random"] if "--prune" in chain else []
    without += ["--max-drop", "1"] if "--int8" in chain else []
    chain += without if options.base else []
    name = "compress-base" if options.base else "compress-sst2"
    places = ["--out", options.out / name, "--reports", options.out / "reports", "--data-dir", options.data_dir]
    arguments = [*places, "--task", "sst2", "--rows", options.rows, "--teacher", teacher, "--model", model, *chain]
    code = run_command(compress, CompressConfig, arguments=[str(argument) for argument in arguments])
    if code:
        sys.exit(code)
    record = Record.load(options.out / name / "record.json")
    say(report(record.compression[0], GOALS["base" if options.base else "sst2"], kept=0.0 if options.base else KEPT))


def report(chain: Compression, goals: Sequence[Goal], *, kept: float) -> str:
    """The goals beside what was reached, for the smallest artifact that keeps enough of the first row's score."""
    shipped = smallest(chain, kept)
    if shipped is None:
        return f"no artifact keeps {kept:.0%} of {chain.rows[0].step}'s score"
    lines = [f"{shipped.step} ({shipped.runtime} {shipped.precision}):"]
    for goal in goals:
        reached = ratio(chain, shipped, goal)
        found = "not measured" if reached is None else f"{reached:.1f}"
        where = "" if goal.cell is None else f" at {goal.cell[0]} x {goal.cell[1]}"
        met = reached is not None and reached >= goal.at_least
        lines.append(f"  {found} {goal.words}{where} (goal {goal.at_least:g}: {'reached' if met else 'missed'})")
    return "\n".join(lines)


def smallest(chain: Compression, kept: float) -> CompressionRow | None:
    """The artifact with the fewest bytes that keeps this share of the score."""
    rows = [row for row in chain.rows if row.role == "chain" and (row.retained or 0.0) >= kept]
    return min(rows, key=lambda row: row.bytes_on_disk, default=None)


def ratio(chain: Compression, shipped: CompressionRow, goal: Goal) -> float | None:
    """What was reached; None where one of the two was not measured."""
    first = chain.rows[0]
    if goal.int8:
        rows = [row for row in chain.rows if row.role == "baseline" and row.precision.startswith("int8")]
        if not rows:
            return None
        first = rows[-1]
    if goal.cell is None:
        return first.bytes_on_disk / shipped.bytes_on_disk
    reference, own = time_of(first, goal.cell), time_of(shipped, goal.cell)
    return None if reference is None or own is None else reference.p50_ms / own.p50_ms


def _base_shapes(options: argparse.Namespace) -> tuple[Path, Path]:
    """Folders of BERT-base and of a student of 4 layers of 312, random weights, with the pieces of minilm."""
    data = TaskOptions(task="sst2", data_dir=options.data_dir, rows=options.rows).load()
    tokenizer = load_for_task(resolve("minilm"), task_for(data), seed=0).tokenizer
    student = {"num_hidden_layers": 4, "hidden_size": 312, "num_attention_heads": 12, "intermediate_size": 1200}
    folders = options.out / "shape-base", options.out / "shape-student"
    for folder, shape in zip(folders, ({}, student), strict=True):
        if not (folder / "config.json").is_file():
            torch.manual_seed(0)
            model = BertForSequenceClassification(BertConfig(vocab_size=len(tokenizer), **shape, **LABELS)).eval()
            card = CardText(title=folder.name, description="Random weights, for speed and size.", task="sst2")
            save(model, tokenizer, folder, card=card)
    return folders


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder with GLUE's files")
    parser.add_argument("--out", type=Path, required=True, help="folder for runs, pages and made-up models")
    parser.add_argument("--teacher", type=Path, help="fine-tuned teacher")
    parser.add_argument("--model", type=Path, help="student that was distilled from it")
    parser.add_argument("--base", action="store_true", help="shapes with random weights instead")
    parser.add_argument("--rows", default="all", help="training rows")
    parser.add_argument("--chain", default="--prune 0.5 --int8", help="the steps, as options of distill.compress")
    options = parser.parse_args()
    if not options.base and (options.teacher is None or options.model is None):
        raise UserError("--teacher and --model are missing: give both, or --base")
    return options


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
