"""The papers' studies of pretraining at any budget: `python -m teacher.ablate --study objective,depth --out DIR`.

The command writes OUT/ablation.json, whose schema lies in common.ablation_record: teacher and reports import neither
each other, so the page is made by `python -m reports.build`, which this command starts as a process of its own.
"""

import shlex
import subprocess
import sys
import time
from pathlib import Path

import torch

from common.ablation_record import FILE, AblationRecord, AblationTask, Study
from common.bootstrap import Interval
from common.columns import aligned
from common.command import run_command
from common.errors import UserError
from common.files import sole_use, write_json
from common.heads import SEQUENCE
from common.progress import say
from common.provenance import plain, provenance
from teacher.ablation_answers import Respondent
from teacher.ablation_config import AblateConfig, encoder_name
from teacher.ablation_rows import Finished, study
from teacher.ablation_studies import Plan
from teacher.data import describe
from teacher.difference import majority
from teacher.loop_config import resolve_precision
from teacher.practice import check_practice
from teacher.pretrain import pretrain
from teacher.pretrain_folder import read_summary
from teacher.ranks import refuse_several
from teacher.tasks import task_for
from teacher.tasks.base import Task

CLAIM = "ablate.json"
"""The settings of the last command in a folder; what has it is a folder of ours."""

EXAMPLES = """
  python -m teacher.ablate --out runs/objectives
  python -m teacher.ablate --study objective,depth --depths 1,2,4,6 --steps 2000 --seeds 3 --out runs/ablation
  python -m teacher.ablate --study all --size tiny --minutes 2 --seeds 1 --out runs/quick
  python -m teacher.ablate --study features --task reviews.csv --corpus FOLDER --out runs/features
"""


def main(config: AblateConfig) -> None:
    """The recipe: pretrain every encoder, let each learn the task, compare, write the record and its page."""
    refuse_several("teacher.ablate")
    started = time.monotonic()
    resolve_precision(config.precision)
    data = config.data.load()
    task = task_for(data)
    check_task(config, task)
    refuse_foreign(config.out)
    with sole_use(config.out):
        write_json(config.out / CLAIM, plain(config))
        for line in describe(data):
            say(line)
        studies = [study(plan, _results(plan, config, task), task) for plan in config.plans]
        encoder = config.out / "pretrained" / studies[0].rows[0].pretraining.encoder
        record = AblationRecord(
            name=config.out.name,
            provenance=provenance(
                config=plain(config),
                seeds=range(config.seeds),
                threads=torch.get_num_threads(),
                precision=resolve_precision(config.precision),
                wall_seconds=time.monotonic() - started,
                argv=sys.argv,
            ),
            task=_task_card(task),
            corpus=config.pretraining.corpus,
            corpus_fingerprint=read_summary(encoder)["settings"]["corpus_fingerprint"],
            budget=config.budget,
            studies=tuple(studies),
        )
        record.save(config.out / FILE)
    say("\n\n".join(closing_table(record, entry) for entry in record.studies))
    say(make_page(config))


def check_task(config: AblateConfig, task: Task) -> None:
    """Raise UserError where encoders cannot be compared on a task, or it cannot be learned as asked."""
    if task.head_kind != SEQUENCE:
        raise UserError(
            f"--task {config.data.task} is of the kind {task.data.kind}: encoders are compared on classes, numbers or "
            "labels of texts, choose such a task"
        )
    check_practice(config.training, task)


def refuse_foreign(folder: Path) -> None:
    """Raise UserError where `folder` holds what no run of this command made."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--out {folder} is a file: choose a folder")
    ours = not folder.exists() or (folder / CLAIM).is_file()
    # What starts with a dot is a lock, or the rest of a write that was cut off.
    if not ours and any(entry for entry in folder.iterdir() if not entry.name.startswith(".")):
        raise UserError(f"--out {folder} holds something else: choose another folder")


def _results(plan: Plan, config: AblateConfig, task: Task) -> dict[str, dict[int, Finished]]:
    """Every variant of a study with every seed, pretrained and with its answers."""
    respondent = Respondent(
        task,
        config.out / "answers",
        max_length=config.data.max_length,
        precision=config.precision,
        checkpoint_every=config.checkpoint_every,
    )
    results: dict[str, dict[int, Finished]] = {variant.name: {} for variant in plan.variants}
    # Seed by seed: the views of one encoder then follow each other.
    for seed in range(config.seeds):
        for variant in plan.variants:
            say(f"{plan.name}, seed {seed + 1} of {config.seeds}: {variant.name}")
            settings = config.pretrain_config(variant, seed)
            encoder = pretrain(settings, config.out / "pretrained" / encoder_name(settings))
            answers = respondent.answers(encoder, config.task_options(seed), variant.view)
            results[variant.name][seed] = Finished(encoder=encoder, answers=answers)
    return results


def _task_card(task: Task) -> AblationTask:
    data = task.data
    labels = task.label_array(data.splits["evaluate"])
    return AblationTask(
        name=data.name,
        kind=data.kind,
        classes=len(data.labels),
        metric=data.metric,
        higher_is_better=task.higher_is_better,
        rows={split: len(rows) for split, rows in data.splits.items()},
        origins=dict(data.origins),
        majority=majority(task, labels),
        fingerprint=data.fingerprint,
        notes=data.notes,
    )


def closing_table(record: AblationRecord, study: Study) -> str:
    """A study on the terminal: scores, differences to the first row, and whether these are seen."""
    headings = (study.name, record.task.metric, "±", "to the first", "95 % interval", "difference seen", "minutes")
    rows = [
        (
            row.name,
            f"{row.value:.4f}",
            "" if row.spread is None else f"{row.spread:.4f}",
            *_difference(row.against_first),
            f"{row.pretraining.seconds / 60:.1f}",
        )
        for row in study.rows
    ]
    return aligned([headings], rows)


def _difference(interval: Interval | None) -> tuple[str, str, str]:
    if interval is None:
        return "", "", ""
    seen = "no" if interval.low <= 0 <= interval.high else "yes"
    return f"{interval.difference:+.4f}", f"{interval.low:+.4f} to {interval.high:+.4f}", seen


def make_page(config: AblateConfig) -> str:
    """Make the page, and the list of runs; what to say about it."""
    runs, page = config.out.parent, config.reports / f"{config.out.name}.html"
    command = ["-m", "reports.build", "--runs", str(runs), "--out", str(config.reports)]
    # The other pages are made where there are none yet.
    alone = ["--only", config.out.name] if (config.reports / "index.html").exists() else []
    done = subprocess.run([sys.executable, *command, *alone], capture_output=True, text=True, check=False)
    # Its exit code is 1 where the record of another run could not be shown.
    if done.returncode not in (0, 1) or not page.is_file():
        reason = done.stderr.strip() or done.stdout.strip()
        return f"no page ({reason}): the record is {config.out / FILE}; {shlex.join(['python', *command])} makes it"
    return f"report: {page}"


if __name__ == "__main__":
    raise SystemExit(run_command(main, AblateConfig, examples=EXAMPLES))
