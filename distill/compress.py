"""A finished model through a chain of steps that make it smaller: `python -m distill.compress --model DIR`."""

import dataclasses
import re
import time
from collections.abc import Sequence
from pathlib import Path

from common.command import run_command
from common.errors import UserError
from common.families import max_length as longest
from common.files import sole_use
from common.progress import say
from common.provenance import plain
from distill.as_trained import as_trained, options_as_trained
from distill.compress_chain import Artifact
from distill.compress_checks import check_model, check_packages
from distill.compress_config import CompressConfig
from distill.compress_record import RECORD, made, measured_before
from distill.compress_summary import chain_table
from distill.runs import numbered
from distill.shipping import UNCHANGED, Shipment
from distill.text import named_corpus
from distill.transfer_sets import key_of, weights_digest
from reports.build import build_reports, check_place
from students.onnx_folder import INFO as ONNX_INFO
from teacher.data import TaskData, describe
from teacher.local import nearest_files
from teacher.loop_config import resolve_precision
from teacher.prepare import prepare
from teacher.ranks import refuse_several
from teacher.ready import CLAIM, claim
from teacher.sources import load_for_task, resolve
from teacher.tasks import task_for
from teacher.tasks.base import Task

EXAMPLES = """
  python -m distill.compress --model runs/reviews-tiny/tiny/seed-0/model --task reviews.csv --prune 0.5
  python -m distill.compress --model DIR --teacher runs/teacher --task sst2 --data-dir GLUE --prune 0.5
  python -m distill.compress --model DIR --task reviews.csv --trim-vocabulary --prune 0.5 --int8
  python -m distill.compress --model DIR --task reviews.csv --prune 0.4 --prune-target latency --prune-parts ffn,layers
"""


def main(config: CompressConfig) -> None:
    """The command."""
    refuse_several("distill.compress")
    started = time.monotonic()
    precision = resolve_precision(config.precision)
    check_place(config.reports)
    check_packages(config.compress)
    data = as_trained(config.data.load(), config.model)
    task = task_for(data)
    model = checked_model(config.model, task, "--model")
    teacher = model if config.teacher is None else checked_model(config.teacher, task, "--teacher")
    config = dataclasses.replace(config, data=options_as_trained(config.data, data, config.model))
    notes = _before(config, task, model)
    key = _key(config, data, (model, teacher), precision)
    out = config.out or _own_folder(Path("runs") / f"{data.name}-{short_name(model)}-compressed", key)
    claim(out, key)
    with sole_use(out):
        say(f"run: {out}")
        for line in (*describe(data), *(f"note: {note}" for note in notes)):
            say(line)
        shipment = Shipment(
            name=short_name(model),
            start=Artifact(folder=model),
            reference=Artifact(folder=teacher),
            reference_name=UNCHANGED if config.teacher is None else "teacher",
        )
        record = measured_before(out, speed=config.speed)
        if record is None:
            record = dataclasses.replace(made(config, task, shipment, out, precision, started), notes=tuple(notes))
            record.save(out / RECORD)
    build_reports(out.parent, config.reports, only=out.name if (config.reports / "index.html").exists() else None)
    say(chain_table(record.compression[0], data.metric, higher_is_better=task.higher_is_better))
    say(f"shipped: {record.compression[0].rows[-1].folder}")
    say(f"report: {config.reports / f'{out.name}.html'}")


def _before(config: CompressConfig, task: Task, model: Path) -> list[str]:
    """What to know of the texts as the model reads them; raises UserError for what cannot be done to it."""
    loaded = load_for_task(str(model), task, seed=0)
    check_model(loaded.model, config.compress)
    return prepare(task, loaded.tokenizer, min(config.data.max_length, longest(loaded.model.config))).truncations()


def checked_model(source: str, task: Task, flag: str) -> Path:
    """The folder of a model that knows the task; raises UserError for others."""
    where = Path(resolve(source))
    if not where.is_dir():
        raise UserError(
            f"{flag} {source} does not exist.{nearest_files(where)} The folder of a fine-tuned model was expected, "
            "such as runs/NAME/tiny/seed-0/model; one of the hub is downloaded first"
        )
    if (where / ONNX_INFO).is_file():
        raise UserError(
            f"{flag} {source} is an ONNX folder, which is the end of a chain: give the torch folder that it was "
            "exported from"
        )
    if not load_for_task(source, task, seed=0).finetuned:
        raise UserError(
            f"{flag} {source} has no head that is trained for the task: fine-tune it first, with python -m "
            "teacher.finetune, or distil a student from it with python -m distill.run"
        )
    return where


def short_name(folder: Path) -> str:
    """What people call a model that lies in this folder: the part of the path that is not "model" or "seed-0".

    >>> short_name(Path("runs/reviews-tiny/tiny/seed-0/model")), short_name(Path("runs/sst2-teacher/model"))
    ('tiny', 'sst2-teacher')
    """
    parts = [part for part in folder.resolve().parts if part != "model" and not re.fullmatch(r"seed-\d+", part)]
    return parts[-1]


def _own_folder(base: Path, key: str) -> Path:
    """The folder of an earlier run with these settings, or the first one under this name that is free."""

    def fits(folder: Path) -> bool:
        marker = folder / CLAIM
        return not folder.exists() or (marker.is_file() and marker.read_text(encoding="utf-8").strip() == key)

    return next(folder for folder in numbered(base) if fits(folder))


def _key(config: CompressConfig, data: TaskData, folders: Sequence[Path], precision: str) -> str:
    """Equal for two commands that make the same artifacts."""
    options = plain(dataclasses.asdict(config.compress))
    weights = [weights_digest(str(folder)) for folder in folders]
    source = config.compress.general_text
    text = () if source is None else (named_corpus(source, "--general-text").fingerprint(),)
    reading = () if (data.long, data.stride) == ("truncate", None) else (data.long, data.stride)
    return key_of(options, data.fingerprint, config.data.max_length, weights, precision, config.seed, *text, *reading)


if __name__ == "__main__":
    raise SystemExit(run_command(main, CompressConfig, examples=EXAMPLES))
