"""Find the best student under a limit of time or size: `python -m distill.study --student tiny --trials 20`."""

import dataclasses
import time
from pathlib import Path

import optuna

from common.command import run_command
from common.errors import UserError
from common.progress import say
from common.words import counted
from distill.contest import check_recipes
from distill.job import Shared
from distill.precompute import drop_insides, insides
from distill.run import make_teacher, shared_by_all
from distill.study_config import StudyConfig
from distill.study_final import apply, confirmed
from distill.study_narrowing import narrowed
from distill.study_objectives import directions
from distill.study_result import closing_table, study_record
from distill.study_shipping import check_shippable, check_shipping
from distill.study_space import Space, defaults, samples, student_space
from distill.study_storage import SLOT, open_storage, revive, slots, top_up
from distill.study_trial import Bench, alone, run_config
from distill.study_workers import run_trials
from distill.transfer import TransferInputs
from reports.build import build_reports, check_place
from teacher.data import TaskData, describe
from teacher.finetune import Teacher
from teacher.loop_config import resolve_precision
from teacher.ranks import refuse_several
from teacher.scratch import expected_config

EXAMPLES = """
  python -m distill.study --student tiny --trials 20
  python -m distill.study --student tiny --trials 40 --max-latency-ms 5 --confirm 2 --apply best
  python -m distill.study --objective accuracy,latency --range hidden=192..312 --fix temperature=2 --task reviews.csv
  python -m distill.study --student distil --storage journal:runs/trials.log --workers 4 --timeout 60
"""


def main(config: StudyConfig) -> None:
    """The recipe: data, teacher, trials, record, page; then the best in full."""
    refuse_several("distill.study")
    started = time.monotonic()
    check_place(config.reports)
    data = config.data.load()
    space = searched(config, data)
    name = config.name or f"study-{data.name}-{config.student}"
    folder = config.runs / name
    for line in (*describe(data), f"study: {folder}"):
        say(line)
    storage = open_storage(config.storage, _made(folder))
    with alone(folder):
        study = opened(config, name, space, data, storage)
        bench = prepared_bench(config, data, space, folder)
        again = revive(study)
        queued = top_up(study, config.searching.trials)
    say(f"trials: {counted(queued, 'trial')} to run" + (f", {again} of them cut off before" if again else ""))
    minutes = config.searching.timeout
    run_trials(bench, name, None if minutes is None else time.time() + 60 * minutes)
    finals = confirmed(bench, study) if config.after.confirm else ()
    drop_insides(folder)
    record = study_record(bench, study, finals, started=started)
    record.save(folder / "study.json")
    build_reports(config.runs, config.reports, only=name if (config.reports / "index.html").exists() else None)
    say(closing_table(record))
    say(f"report: {config.reports / f'{name}.html'}")
    if config.after.apply is not None:
        apply(bench, study, config.after.apply)


def _made(folder: Path) -> Path:
    if (folder / "record.json").exists() or (folder / "ablation.json").exists():
        raise UserError(f"{folder} holds another run: choose another --name")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "costs").mkdir(exist_ok=True)
    return folder


def searched(config: StudyConfig, data: TaskData) -> Space:
    """The space, narrowed as the user wants; its ends and every choice are checked to be possible."""
    options, teacher = config.searching, expected_config(config.teacher, scratch=config.scratch)
    whole = student_space(config.student, teacher, kind=data.kind, recipe=config.recipe, start=config.start)
    space = narrowed(whole, options.fix, options.range, options.space)
    for settings in samples(space):
        check_recipes(run_config(config, settings), data.kind, teacher)
    check_shipping(space)
    return space


_FREE = ("trials", "timeout", "sampler", "seed", "fix", "range", "space")
"""Options that may change from one command of a study to the next; what narrows the space is in its parts."""


def opened(
    config: StudyConfig, name: str, space: Space, data: TaskData, storage: optuna.storages.BaseStorage
) -> optuna.Study:
    """The study in the store, new or gone on with; its first trial is the preset, where the space has it.

    Raises:
        UserError: a study of that name with other settings.
    """
    study = optuna.create_study(
        study_name=name, storage=storage, directions=directions(config.searching), load_if_exists=True
    )
    wanted = _identity(config, space, data)
    stored = study.user_attrs.get("identity")
    if stored is None:
        study.set_user_attr("identity", wanted)
    elif stored != wanted:
        changed = [key for key in wanted | stored if stored.get(key) != wanted.get(key)]
        raise UserError(
            f"study {name} was begun with other settings ({', '.join(changed[:4])}): repeat them, or choose "
            "another --name"
        )
    first = defaults(space)
    if first is not None and not slots(study):
        study.enqueue_trial(first, user_attrs={SLOT: True})
    return study


def _identity(config: StudyConfig, space: Space, data: TaskData) -> dict[str, str]:
    """All that trials of one study must have in common, by flag or part of the space."""
    options = {key: str(value) for key, value in vars(config.searching).items() if key not in _FREE}
    return {
        **{f"--{key.replace('_', '-')}": value for key, value in options.items()},
        **{f"--{key}": str(getattr(config, key)) for key in ("student", "teacher", "recipe", "start", "precision")},
        **{f"space: {name}": part.words for name, part in space.items() if not part.idle},
        **{f"--{key.replace('_', '-')}": str(value) for key, value in vars(config.finetuning).items()},
        **{flag: str(value) for flag, value in config.scratch.given.items()},
        "--max-length": str(config.data.max_length),
        "--task": data.fingerprint,
    }


def prepared_bench(config: StudyConfig, data: TaskData, space: Space, folder: Path) -> Bench:
    """The teacher, its answers and its insides, made once for all trials."""
    base = run_config(config, {})
    teacher, pretrained = make_teacher(base, data, None)
    nothing = TransferInputs(unlabeled=[], masked=None, vectors=None, outputs=None)
    shared = shared_by_all(base, data, teacher, pretrained, nothing, {}, folder)
    precision = resolve_precision(config.precision)
    score = teacher.prepared.score(teacher.model, "select", precision)
    say(f"teacher: {data.metric} {abs(score):.4f} on the selection split")
    bench = Bench(config=config, folder=folder, space=space, shared=shared, teacher_score=score)
    check_shippable(bench)
    return dataclasses.replace(bench, shared=_with_insides(bench, teacher, shared, precision))


def _with_insides(bench: Bench, teacher: Teacher, shared: Shared, precision: str) -> Shared:
    """With what students of any depth in the space look at in the teacher."""
    layers = bench.space["layers"]
    maps = bench.space["layer_map"].choices if "layer_map" in bench.space else (None,)
    jobs = [
        job
        for depth in range(int(layers.low), int(layers.high) + 1)
        for name in maps
        for job in bench.jobs(
            {"layers": depth} if name is None else {"layers": depth, "layer_map": name},
            bench.folder / "none" / f"{depth}-{name}",
        )
    ]
    gigabytes = run_config(bench.config, {}).distilling.cache_gb
    kept = insides(teacher, jobs, bench.folder, gigabytes=gigabytes, bf16=precision == "bf16")
    return dataclasses.replace(shared, insides=kept)


if __name__ == "__main__":
    raise SystemExit(run_command(main, StudyConfig, examples=EXAMPLES))
