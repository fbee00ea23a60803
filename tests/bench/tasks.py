"""Teachers and students on tasks of every kind, one run each: scores, what is kept, and the same without distillation.

Finished runs are read again and an unfinished one is gone on with, so that the table can be made in several sittings.
"""

import argparse
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rounds import gap, points, table

from common.errors import UserError, unknown_name
from common.files import write_text
from common.progress import say
from reports.record import ModelCard, Record

SMALL = ("--teacher-epochs", "5", "--seeds", "3")
GLUE = ("sst2", "cola", "mrpc", "rte", "stsb")
TASKS: dict[str, tuple[str, ...]] = {
    "sst2": ("--teacher-epochs", "3", "--rows", "15000"),
    "cola": SMALL,
    "mrpc": SMALL,
    "rte": SMALL,
    "stsb": SMALL,
    "banking77": ("--teacher-epochs", "5"),
    "conll2003": ("--teacher-epochs", "3", "--rows", "8000"),
    "xquad": (*SMALL, "--max-length", "320"),
    "chnsenticorp": ("--teacher", "scratch", "--rows", "4000"),
    "pydocs-pair": ("--rows", "4000"),
}
"""Task to the options of its run: few rows need more passes, and more seeds; where rows are many or long, they are
capped. No Chinese encoder is packaged."""
HEADER = ("task (metric, n)", "model", "score", "kept", "against the teacher", "against its twin")


def main() -> None:
    options = _options()
    records = [_record(task, options) for task in options.tasks.split(",")]
    page = table(HEADER, [row for record in records for row in rows(record)]) + "\n\n" + means(records)
    say(page)
    write_text(options.out / "tasks.md", page + "\n")


def _record(task: str, options: argparse.Namespace) -> Record:
    """Of the finished run of this task, which is made or finished first."""
    name = f"{task}-{options.student.replace(',', '-')}"
    path = options.out / name / "record.json"
    if not path.is_file():
        command = [sys.executable, "-m", "distill.run", *_place(task, options.data), "--name", name]
        command += ["--student", options.student]
        command += [] if "--teacher" in TASKS[task] else ["--teacher", options.teacher]
        command += ["--resume"] if path.parent.is_dir() else []
        command += ["--no-speed", "--runs", str(options.out), "--reports", str(options.out / "reports"), *TASKS[task]]
        say(" ".join(command[1:]))
        subprocess.run(command + options.more, check=True)
    return Record.load(path)


def _place(task: str, data: Path) -> list[str]:
    """The options that say where its data lies."""
    if task in GLUE:
        return ["--task", task, "--data-dir", str(data / "glue" if (data / "glue").is_dir() else data)]
    places = {"pydocs-pair": task, "xquad": str(data / task / "xquad.en.json")}
    return ["--task", places.get(task, str(data / task))]


def rows(record: Record) -> Iterable[Sequence[str]]:
    """One row a model, the metric in points."""
    metric = f"{record.task.name} ({record.task.metric}, {record.task.rows['evaluate']:,})"
    for card in record.models:
        quality = card.quality
        kept = "" if quality.retained is None else f"{100 * quality.retained:.1f} %"
        intervals = [gap(quality.against_teacher), gap(quality.against_twin)]
        yield [metric, card.name, points(quality.value, quality.spread), kept, *intervals]


def means(records: Sequence[Record]) -> str:
    """Over the tasks, and what is kept of the teacher's mean, as the papers have it."""
    names = [card.name for card in records[0].models if all(_find(record, card.name) for record in records)]
    scores = {name: statistics.mean(record.model(name).quality.value for record in records) for name in names}
    return table(
        ("model", f"mean of {len(records)} tasks", "kept"),
        [[name, f"{100 * score:.2f}", f"{100 * score / scores['teacher']:.1f} %"] for name, score in scores.items()],
    )


def _find(record: Record, name: str) -> ModelCard | None:
    return next((card for card in record.models if card.name == name), None)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the tasks' folders, GLUE's in glue/")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--student", default="tiny,distil,albert")
    parser.add_argument("--teacher", default="minilm")
    parser.add_argument("--out", type=Path, default=Path("runs/bench/tasks"), help="runs, their pages, and tasks.md")
    parser.add_argument("more", nargs="*", help="after --: more options of distill.run")
    options = parser.parse_args()
    for task in options.tasks.split(","):
        if task not in TASKS:
            raise unknown_name("task", task, TASKS)
    return options


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
