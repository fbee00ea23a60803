"""Studies under the latency of the default `tiny`: what TPE and random search find with the same number of trials.

Both draw from one space, in which training is as long as the default's (`--fix`), and share the teacher, what was
measured and the default student that theirs are compared with. Everything that is finished is read again and what is
not is gone on with, so that the table can be made in several sittings.
"""

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rounds import table

from common.errors import UserError
from common.files import write_json, write_text
from common.progress import say
from common.study_record import FinalRow, StudyRecord
from distill.config import DistilOptions
from distill.job import Shared
from distill.study_config import StudyConfig
from distill.study_space import Space, Value, student_space
from distill.study_trial import Bench, measured
from teacher.data import BUILT_IN, TaskData
from teacher.options import TaskOptions
from teacher.scratch import expected_config
from teacher.sources import resolve

SAMPLERS = ("tpe", "random")
OVER = ("complete", "pruned", "failed")
"""States that a trial ends in."""
REPEATS = 5
"""Of the measurement that the limit is taken from: its median, since one may be disturbed."""
HEADER = ("student", "accuracy", "against the default", "ms", "speed", "MB", "trials (trained)", "search", "in all")


def main() -> None:
    options = _options()
    config = _config(options)
    data = config.data.load()
    space = student_space("tiny", expected_config(config.teacher), kind=data.kind, recipe=config.recipe, start=None)
    costs = limit(_unprepared(config, data, space, options.out / "limit"))
    records = {}
    for sampler in SAMPLERS:
        folder = options.out / sampler
        for source in (costs, *(options.out / name for name in records)):
            _take_over(source, folder)
        records[sampler] = studied(sampler, folder, _milliseconds(costs), options)
    page = report(records, space, {sampler: _minutes(options.out / sampler) for sampler in SAMPLERS})
    say(page)
    write_text(options.out / "study.md", page + "\n")


def _config(options: argparse.Namespace) -> StudyConfig:
    return StudyConfig(
        teacher=options.teacher,
        runs=options.out,
        data=TaskOptions(task=options.task, data_dir=options.data_dir, rows=options.rows),
    )


def _unprepared(config: StudyConfig, data: TaskData, space: Space, folder: Path) -> Bench:
    """With the teacher before its fine-tuning, if it needs one: students have the same shape."""
    shared = Shared(
        data=data,
        teacher=resolve(config.teacher),
        teacher_origin=config.teacher,
        teacher_logits={},
        voices=(),
        sets={},
        pretrained=None,
        text="task",
        text_length=DistilOptions().text_length,
        max_length=config.data.max_length,
        precision=config.precision,
        checkpoint_every=0,
    )
    return Bench(config=config, folder=folder, space=space, shared=shared, teacher_score=0.0)


def limit(bench: Bench) -> Path:
    """The folder with the median of several measurements of the default student."""
    found = {}
    for folder in (bench.folder / str(repeat) for repeat in range(REPEATS)):
        if not folder.is_dir():
            measured(bench, bench.student({}))
            folder.mkdir()
            (bench.folder / "costs").rename(folder / "costs")
        found[folder] = _milliseconds(folder)
    say(f"default tiny: {', '.join(f'{value:.2f}' for value in found.values())} ms")
    return sorted(found, key=lambda folder: found[folder])[REPEATS // 2]


def _milliseconds(folder: Path) -> float:
    (path,) = (folder / "costs").glob("*.json")
    return json.loads(path.read_text(encoding="utf-8"))["latency_ms"]


def _take_over(source: Path, folder: Path) -> None:
    """Costs of architectures, and finished trainings of the preset, from another study of the same teacher."""
    seeds = [path.parent for path in (source / "confirmed" / "preset").glob("*/job.json")]
    for path in (*(source / "costs").glob("*.json"), *seeds):
        target = folder / path.relative_to(source)
        if target.exists():
            continue
        if path.is_dir():
            unfinished = folder / f"{path.name}.copy"
            shutil.rmtree(unfinished, ignore_errors=True)
            shutil.copytree(path, unfinished)
            target.parent.mkdir(parents=True, exist_ok=True)
            unfinished.rename(target)
        else:
            write_json(target, json.loads(path.read_text(encoding="utf-8")))


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


def report(records: Mapping[str, StudyRecord], space: Space, minutes: Mapping[str, float]) -> str:
    """What was found, and with which settings, as two tables."""
    first = next(iter(records.values()))
    rows = [_default_row(record.finals[0]) for record in records.values() if record.finals][:1]
    chosen: dict[str, Mapping[str, Value]] = {"default": {name: part.default for name, part in space.items()}}
    for sampler, record in records.items():
        rows.append([f"chosen by {sampler}", *_found(record), *_spent(record, minutes[sampler])])
        if record.chosen is not None:
            chosen[sampler] = next(row.settings for row in record.trials if row.number == record.chosen)
    head = f"{first.task}, {first.rows['train']:,} rows; teacher {first.teacher_score:.4f} on the selection split; "
    head += ", ".join(f"{name} at most {value:.2f}" for name, value in first.limits.items())
    settings = table(("part", *chosen), ([name, *(_cell(own[name]) for own in chosen.values())] for name in space))
    return "\n\n".join((head, table(HEADER, rows), settings))


def _default_row(row: FinalRow) -> list[str]:
    return ["default tiny", _score(row), "", f"{row.latency_ms:.2f}", "1.00", f"{row.size_mb:.1f}", "", "", ""]


def _found(record: StudyRecord) -> Iterator[str]:
    """Score, difference, latency, speed and size of the chosen student; speed against the preset beside it."""
    if len(record.finals) < 2:
        yield from ("none is within the limit", "", "", "", "")
        return
    preset, own = record.finals[:2]
    gap = own.against_preset
    yield _score(own)
    yield "" if gap is None else f"{100 * gap.difference:+.2f} ({100 * gap.low:+.2f} to {100 * gap.high:+.2f})"
    yield f"{own.latency_ms:.2f}"
    yield f"{preset.latency_ms / own.latency_ms:.2f}"
    yield f"{own.size_mb:.1f}"


def _score(row: FinalRow) -> str:
    return f"{100 * row.value:.2f}" + ("" if row.spread is None else f" ± {100 * row.spread:.2f}")


def _spent(record: StudyRecord, minutes: float) -> Iterator[str]:
    """Trials that ended and those of them that trained; minutes of all trials a worker, and of the whole command."""
    ended = [row for row in record.trials if row.state in OVER]
    workers = int(record.provenance.config["workers"]) or 1
    yield f"{len(ended)} ({sum(bool(row.rungs) for row in ended)})"
    yield f"{sum(row.seconds or 0.0 for row in ended) / workers / 60:.1f} min"
    yield f"{minutes:.1f} min"


def _cell(value: Value) -> str:
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
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--fix", default="budget=1,batch_tokens=1024", help="as many steps as the default has")
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
