"""Find the best student under a limit of time or size: `python -m distill.study --student tiny --trials 20`."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna

from common.command import run_command
from common.errors import UserError
from common.files import sole_use
from common.progress import say
from common.study_record import FILE, FinalRow, StudyRecord
from common.words import counted
from distill.as_trained import with_task
from distill.precompute import drop_insides
from distill.study_config import StudyConfig
from distill.study_costs import share_yardstick
from distill.study_final import NONE_WITHIN, apply, confirmed
from distill.study_folder import claim, made, used
from distill.study_identity import opened
from distill.study_result import closing_table, study_record
from distill.study_space import Space, defaults
from distill.study_storage import open_storage, revive, top_up
from distill.study_students import prepared_students, searched_students
from distill.study_teacher import prepared_teachers, searched_teachers
from distill.study_teacher_final import apply_teacher, confirmed_teachers
from distill.study_trial import alone
from distill.study_workers import run_trials
from reports.build import build_reports, check_place
from teacher.data import TaskData, describe
from teacher.ranks import refuse_several

EXAMPLES = """
  python -m distill.study --student tiny --trials 20
  python -m distill.study --student tiny --trials 40 --max-latency-ms 5 --confirm 2 --apply best
  python -m distill.study --objective accuracy,latency --range hidden=192..312 --fix temperature=2 --task reviews.csv
  python -m distill.study --target teacher --task reviews.csv --trials 20 --rungs 3 --confirm 1 --apply best
  python -m distill.study --student distil --storage journal:runs/trials.log --workers 4 --timeout 60
"""


def main(config: StudyConfig) -> None:
    """The recipe: data, teacher, trials, record, page; then the best in full."""
    refuse_several("distill.study")
    started = time.monotonic()
    check_place(config.reports)
    config, data = with_task(config)
    target = TARGETS[config.target]
    space = target.searched(config, data)
    name = config.name or f"study-{data.name}-{config.searched}"
    folder = config.runs / name
    for line in (*describe(data), f"study: {folder}"):
        say(line)
    storage = open_storage(config.storage, made(folder))
    with used(folder, at_last=drop_insides):
        with alone(folder):
            study = opened(config, name, space, data, storage, options=target.options)
            claim(folder, study)
            # Another machine's is here before this one would measure its own, which is the study's where it has none.
            share_yardstick(study, folder)
            bench = target.prepared(config, data, space, folder)
            share_yardstick(study, folder)
            again = revive(study)
            queued = top_up(study, config.searching.trials, first=defaults(bench.space))
            _refuse_unknown(config.after.apply, study)
        say(f"trials: {counted(queued, 'trial')} to run" + (f", {again} of them cut off before" if again else ""))
        minutes = config.searching.timeout
        run_trials(bench, name, None if minutes is None else time.time() + 60 * minutes)
        record = recorded(target, bench, study, started)
    say(closing_table(record))
    say(f"report: {config.reports / f'{name}.html'}")
    if config.after.apply is not None:
        target.apply(bench, study, config.after.apply)


def _refuse_unknown(which: str | None, study: optuna.Study) -> None:
    """Before hours of trials rather than after them."""
    known = len(study.get_trials(deepcopy=False))
    if which is not None and which != "best" and int(which) >= known:
        raise UserError(f"--apply {which}: no such trial; this study has trials 0 to {known - 1}: give one of these")


def recorded(target: "Target", bench: Any, study: optuna.Study, started: float) -> StudyRecord:
    """The record, written with its page, and written again after the comparison where that is asked for.

    What was compared before stays, and trials of hours are on a page whatever becomes of the comparison.
    """
    record = written(study_record(bench, study, _compared_before(bench.folder), started=started), bench.config)
    if not bench.config.after.confirm:
        return record
    # Another command of the study trains in the same places.
    with sole_use(bench.folder / "confirmed", wait=True):
        finals = target.confirmed(bench, study)
    if not finals:
        say(f"note: --confirm: {NONE_WITHIN}")
    return written(study_record(bench, study, finals, started=started), bench.config)


def _compared_before(folder: Path) -> tuple[FinalRow, ...]:
    """The students in full of the record in the folder; none where there is no record, or none that can be read."""
    try:
        return StudyRecord.load(folder / FILE).finals
    except UserError:
        return ()


def written(record: StudyRecord, config: StudyConfig) -> StudyRecord:
    """The record, which is in its folder now, as its page is in the reports."""
    record.save(config.runs / record.name / FILE)
    build_reports(config.runs, config.reports, only=record.name if (config.reports / "index.html").exists() else None)
    return record


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a study searches."""

    searched: Callable[[StudyConfig, TaskData], Space]
    """The space, narrowed and checked."""
    prepared: Callable[[StudyConfig, TaskData, Space, Path], Any]
    """What all trials have in common, made once."""
    confirmed: Callable[[Any, optuna.Study], tuple[FinalRow, ...]]
    apply: Callable[[Any, optuna.Study, str], None]
    options: tuple[str, ...]
    """Options that all commands of one study share, beside those of any target."""


TARGETS = {
    "student": Target(
        searched=searched_students,
        prepared=prepared_students,
        confirmed=confirmed,
        apply=apply,
        options=("student", "recipe", "start", "class_weights"),
    ),
    "teacher": Target(
        searched=searched_teachers,
        prepared=prepared_teachers,
        confirmed=confirmed_teachers,
        apply=apply_teacher,
        options=("target",),
    ),
}


if __name__ == "__main__":
    raise SystemExit(run_command(main, StudyConfig, examples=EXAMPLES))
