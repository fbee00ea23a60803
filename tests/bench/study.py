"""Studies under the latency of the default `tiny`: what TPE and random search find with the same number of trials.

Both draw from one space, in which training is as long as the default's (`--fix`), and share the teacher and the default
student that theirs are compared with, which was trained once. Everything that is finished is read again and what is
not is gone on with, so that the table can be made in several sittings.
"""

import argparse
import dataclasses
import json
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rounds import gap, points, table

from common.errors import UserError
from common.files import new_folder, write_json, write_text
from common.progress import say
from common.study_record import FinalRow, StudyRecord
from distill.measure import measure_latency
from distill.study_config import SearchOptions
from distill.study_costs import YARDSTICK
from students.build import build_student
from students.presets import student_preset
from teacher.data import BUILT_IN
from teacher.options import TaskOptions
from teacher.sources import load_for_task, resolve
from teacher.tasks import task_for

SAMPLERS = ("tpe", "random")
OVER = ("complete", "pruned", "failed")
"""States that a trial ends in."""
REPEATS = 5
"""Of the measurement that the limit is taken from: its median, since one may be disturbed."""
HEADER = ("student", "accuracy", "against the default", "ms", "speed", "MB", "trials (trained)", "search", "in all")


def main() -> None:
    options = _options()
    milliseconds = limit(options)
    records: dict[str, StudyRecord] = {}
    for sampler in SAMPLERS:
        # Both studies measure by the yardstick that the limit is made of.
        write_json(options.out / sampler / YARDSTICK, {"preset": milliseconds / options.slack})
        for name in records:
            _take_over(options.out / name / "confirmed" / "preset", options.out / sampler / "confirmed" / "preset")
        records[sampler] = studied(sampler, options.out / sampler, milliseconds, options)
    page = report(records, {sampler: _minutes(options.out / sampler) for sampler in SAMPLERS})
    say(page)
    write_text(options.out / "study.md", page + "\n")


def limit(options: argparse.Namespace) -> float:
    """Milliseconds: those of the default student, and a little, so that a study may measure it again and try it."""
    path = options.out / "limit.json"
    if not path.is_file():
        data = TaskOptions(task=options.task, data_dir=options.data_dir, rows=options.rows).load()
        encoder = load_for_task(resolve(options.teacher), task_for(data), seed=0).model
        shape = dataclasses.replace(student_preset("tiny", encoder.config), start="random", teacher_layers=None)
        models = {"tiny": build_student(shape, encoder, seed=0)}
        cell = {"batches": (1,), "lengths": (SearchOptions().latency_length,), "threads": (1,)}
        found = [measure_latency(models, **cell, seconds=2.0)["tiny"][0].p50_ms for _ in range(REPEATS)]
        write_json(path, {"latency_ms": found, "median": statistics.median(found)})
    return options.slack * json.loads(path.read_text(encoding="utf-8"))["median"]


def _take_over(source: Path, folder: Path) -> None:
    """The finished trainings of the default, from another study of the same teacher."""
    for seed in (path.parent for path in source.glob("*/job.json")):
        if not (folder / seed.name).exists():
            with new_folder(folder / seed.name) as target:
                shutil.copytree(seed, target, dirs_exist_ok=True)


def studied(sampler: str, folder: Path, milliseconds: float, options: argparse.Namespace) -> StudyRecord:
    """The record of a finished study, which is made or gone on with first."""
    trials = options.random_trials or options.trials if sampler == "random" else options.trials
    record = StudyRecord.load(folder / "study.json") if (folder / "study.json").is_file() else None
    if record is None or not _over(record, trials, options.seeds):
        command = [sys.executable, "-m", "distill.study", "--student", "tiny", "--teacher", options.teacher]
        command += ["--task", options.task, "--rows", options.rows, "--name", sampler, "--runs", str(options.out)]
        command += ["--data-dir", str(options.data_dir)] if options.data_dir else []
        command += ["--reports", str(options.out / "reports"), "--sampler", sampler, "--trials", str(trials)]
        command += ["--max-latency-ms", repr(milliseconds), "--fix", options.fix, "--workers", str(options.workers)]
        command += ["--confirm", "1", "--seeds", str(options.seeds)]
        command += ["--timeout", str(options.timeout)] if options.timeout else []
        _timed([*command, *options.more], folder)
        record = StudyRecord.load(folder / "study.json")
    return record


def _over(record: StudyRecord, trials: int, seeds: int) -> bool:
    confirmed = record.chosen is None or bool(record.finals and len(record.finals[0].by_seed) >= seeds)
    return confirmed and sum(row.state in OVER for row in record.trials) >= trials


def _timed(command: Sequence[str], folder: Path) -> None:
    """Run it, and add its time to that of earlier sittings; a sitting that was killed with this script is not in it."""
    say(shlex.join(command[1:]))
    path, started = folder / "sittings.json", time.monotonic()
    try:
        subprocess.run(command, check=True)
    finally:
        earlier = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
        write_json(path, [*earlier, time.monotonic() - started])


def _minutes(folder: Path) -> float:
    return sum(json.loads((folder / "sittings.json").read_text(encoding="utf-8"))) / 60


def report(records: Mapping[str, StudyRecord], minutes: Mapping[str, float]) -> str:
    """What was found, and with which settings, as two tables."""
    first = next(iter(records.values()))
    rows = [_default_row(record.finals[0]) for record in records.values() if record.finals][:1]
    chosen = {"default": first.trials[0].settings}
    for sampler, record in records.items():
        rows.append([f"chosen by {sampler}", *_found(record), *_spent(record, minutes[sampler])])
        if record.chosen is not None:
            chosen[sampler] = next(row.settings for row in record.trials if row.number == record.chosen)
    head = f"{first.task}, {first.rows['train']:,} rows; teacher {first.teacher_score:.4f} on the selection split; "
    head += ", ".join(f"{name} at most {value:.2f}" for name, value in first.limits.items())
    parts = ([name, *(_cell(own.get(name, "")) for own in chosen.values())] for name in first.space)
    return "\n\n".join((head, table(HEADER, rows), table(("part", *chosen), parts)))


def _default_row(row: FinalRow) -> list[str]:
    return [
        "default tiny",
        points(row.value, row.spread),
        "",
        f"{row.latency_ms:.2f}",
        "1.00",
        f"{row.size_mb:.1f}",
        "",
        "",
        "",
    ]


def _found(record: StudyRecord) -> Iterator[str]:
    """Score, difference, latency, speed and size of the chosen student; speed against the preset beside it."""
    if len(record.finals) < 2:
        yield from ("none is within the limit", "", "", "", "")
        return
    preset, own = record.finals[:2]
    yield points(own.value, own.spread)
    yield gap(own.against_preset)
    yield f"{own.latency_ms:.2f}"
    yield f"{preset.latency_ms / own.latency_ms:.2f}"
    yield f"{own.size_mb:.1f}"


def _spent(record: StudyRecord, minutes: float) -> Iterator[str]:
    """Trials that ended and those of them that trained; minutes of all trials a worker, and of the whole command."""
    ended = [row for row in record.trials if row.state in OVER]
    workers = int(record.provenance.config["workers"]) or 1
    yield f"{len(ended)} ({sum(bool(row.rungs) for row in ended)})"
    yield f"{sum(row.seconds or 0.0 for row in ended) / workers / 60:.1f} min"
    yield f"{minutes:.1f} min"


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="pydocs", help="pydocs, or sst2 with --data-dir")
    parser.add_argument("--data-dir", type=Path, help="folder with GLUE's files")
    parser.add_argument("--rows", default="default", help="training rows")
    parser.add_argument("--teacher", default="minilm", help="an encoder, or the folder of a fine-tuned teacher")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--random-trials", type=int, help="of random search; by default as many")
    parser.add_argument("--timeout", type=float, help="minutes of one sitting of a study")
    parser.add_argument("--seeds", type=int, default=3, help="of the default student and of those chosen")
    parser.add_argument("--workers", type=int, default=2, help="trials side by side")
    # On pydocs 32 texts, on SST-2 those that fill 1,024 pieces.
    steps = "as many steps as the default has on pydocs; sst2: batch_tokens=1024"
    parser.add_argument("--fix", default="budget=1,batch_tokens=1197", help=steps)
    parser.add_argument("--slack", type=float, default=1.03, help="the limit is so many times the default's latency")
    parser.add_argument("--out", type=Path, default=Path("runs/bench/study"), help="runs, their pages, and study.md")
    parser.add_argument("more", nargs="*", help="after --: more options of distill.study")
    options = parser.parse_args()
    if options.task not in BUILT_IN and options.data_dir is None and not Path(options.task).exists():
        parser.error(f"--task {options.task} needs --data-dir")
    return options


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
