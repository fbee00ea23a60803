"""The best trials trained in full: compared with the preset over several seeds, or as a run of distill.run."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import optuna

from common.bootstrap import mean_and_spread
from common.errors import UserError
from common.progress import say
from common.study_record import FinalRow
from distill.compress_chain import Artifact
from distill.contest import answers
from distill.job import Job
from distill.runs import finished
from distill.study_config import SearchOptions
from distill.study_costs import latencies, model_bytes
from distill.study_objectives import best
from distill.study_runner import SETTINGS
from distill.study_shipping import answered, fixed_chain, shipped
from distill.study_space import Value
from distill.study_storage import slots
from distill.study_trial import Bench, run_config
from distill.workers import run_jobs
from teacher.difference import difference
from teacher.tasks.base import Task

PRESET = "preset"
NONE_WITHIN = "no trial ended within the limits: give more --trials, or wider limits and another --name"


def confirmed(bench: Bench, study: optuna.Study) -> tuple[FinalRow, ...]:
    """The preset and the best trials, each trained in full with every seed; none without a trial in the limits."""
    chosen = best(slots(study), bench.config.searching)[: bench.config.after.confirm]
    if not chosen:
        return ()
    settings: dict[str, Mapping[str, Value]] = {PRESET: fixed_chain(bench.space)}
    settings |= {f"trial {trial.number}": trial.user_attrs[SETTINGS] for trial in chosen}
    groups = {name: _jobs(bench, name, values) for name, values in settings.items()}
    say(f"training in full: {', '.join(groups)}, {bench.config.after.seeds} seeds each")
    run_jobs([job for group in groups.values() for job in group], bench.shared, bench.config.processes)
    made = {
        name: [shipped(bench, settings[name], job.model_folder, job.folder / "shipped", job.seed) for job in jobs]
        for name, jobs in groups.items()
    }
    prepared = bench.teacher.prepared
    return final_rows(
        prepared.task,
        prepared.splits["evaluate"].references,
        {name: _predictions(bench, group, made[name]) for name, group in groups.items()},
        {name: artifacts[0] for name, artifacts in made.items()},
        {f"trial {trial.number}": trial.number for trial in chosen},
        length=bench.latency_length,
    )


def _jobs(bench: Bench, name: str, settings: Mapping[str, Value]) -> list[Job]:
    folder = bench.folder / "confirmed" / name.replace(" ", "-")
    # Seeds that no trial was chosen by.
    first = bench.config.searching.seed + 1
    return [
        dataclasses.replace(job, seed=job.seed + first, folder=folder / f"seed-{job.seed + first}")
        for job in bench.jobs(settings, folder, seeds=bench.config.after.seeds)
    ]


def final_rows(
    task: Task,
    references: np.ndarray,
    predictions: Mapping[str, Mapping[int, np.ndarray]],
    firsts: Mapping[str, Artifact],
    trials: Mapping[str, int],
    *,
    length: int,
) -> tuple[FinalRow, ...]:
    """Groups of seeds, the preset's first, compared with it, and measured in turns on texts of `length` pieces.

    By name: seed to predictions for the evaluation split, what the first seed ships as, and the trial's number.
    """
    times = latencies(firsts, task, length, seconds=3.0 * len(firsts))
    found = []
    for name, own in predictions.items():
        by_seed = {seed: task.metrics(values, references)[task.data.metric] for seed, values in own.items()}
        value, spread = mean_and_spread(list(by_seed.values()))
        answers_of, preset = (list(predictions[key].values()) for key in (name, PRESET))
        found.append(
            FinalRow(
                name=name,
                trial=trials.get(name),
                value=value,
                spread=spread,
                by_seed={str(seed): score for seed, score in by_seed.items()},
                latency_ms=times[name].p50_ms,
                size_mb=model_bytes(firsts[name]) / 1e6,
                against_preset=None if name == PRESET else difference(task, answers_of, preset, references),
                folder=str(firsts[name].folder),
                p95_ms=times[name].p95_ms,
                repeats=times[name].repeats,
            )
        )
    return tuple(found)


def _predictions(bench: Bench, group: Sequence[Job], made: Sequence[Artifact]) -> dict[int, np.ndarray]:
    """By seed, for the evaluation split, as the models ship."""
    if made[0].folder == group[0].model_folder:
        return answers(group, bench.teacher.prepared)
    return {job.seed: answered(bench, artifact, "evaluate")[1] for job, artifact in zip(group, made, strict=True)}


def apply(bench: Bench, study: optuna.Study, which: str) -> None:
    """The full run of one trial by distill.run, in a run folder of its own.

    Raises:
        UserError: no such trial, or none within the limits.
    """
    from distill.run import main

    settings, number = chosen_settings(study, which, bench.config.searching)
    name = f"{bench.folder.name}-trial-{number}"
    options = run_config(bench.config, settings, twins=True, seeds=bench.config.after.seeds, jobs=bench.config.workers)
    options = dataclasses.replace(options, name=name, speed=bench.config.after.speed)
    if finished(options, bench.data.fingerprint):
        say(f"{bench.config.runs / name} is finished: its model is used as it is")
        return
    main(dataclasses.replace(options, resume=(bench.config.runs / name / "config.json").is_file()))


def chosen_settings(study: optuna.Study, which: str, options: SearchOptions) -> tuple[Mapping[str, Value], int]:
    """The settings and the number of the best trial, or of the one that is named.

    Raises:
        UserError: no such trial, or none within the limits.
    """
    known = {trial.number: trial for trial in slots(study) if SETTINGS in trial.user_attrs}
    if which == "best":
        chosen = best(list(known.values()), options)
        if not chosen:
            raise UserError(f"--apply best: {NONE_WITHIN}")
        return chosen[0].user_attrs[SETTINGS], chosen[0].number
    if int(which) not in known:
        raise UserError(f"--apply {which}: no such trial; there are {', '.join(map(str, sorted(known)))}")
    return known[int(which)].user_attrs[SETTINGS], int(which)
