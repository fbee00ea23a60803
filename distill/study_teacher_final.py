"""The best fine-tunings of a study in full: compared with the options as given over several seeds, or as a teacher."""

import dataclasses
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import optuna

from common.progress import say
from common.study_record import FinalRow
from distill.compress_chain import Artifact
from distill.study_final import PRESET, chosen_settings, final_rows
from distill.study_objectives import best
from distill.study_runner import SETTINGS
from distill.study_space import Value
from distill.study_storage import slots
from distill.study_teacher import TeacherBench
from distill.study_teacher_space import finetune_options
from distill.workers import run_calls
from teacher.finetune import FinetuneConfig
from teacher.finetune import main as finetune_command
from teacher.options import FinetuneOptions
from teacher.prepare import predict_logits
from teacher.ready import ready_teacher
from teacher.sources import load_for_task
from teacher.tasks import task_for


def confirmed_teachers(bench: TeacherBench, study: optuna.Study) -> tuple[FinalRow, ...]:
    """The options as given and the best trials, each fine-tuned in full with every seed; none without a trial."""
    config, prepared = bench.config, bench.prepared
    chosen = best(slots(study), config.searching)[: config.after.confirm]
    if not chosen:
        return ()
    settings: dict[str, Mapping[str, Value]] = {PRESET: {}}
    settings |= {f"trial {trial.number}": trial.user_attrs[SETTINGS] for trial in chosen}
    say(f"fine-tuning in full: {', '.join(settings)}, {config.after.seeds} seeds each")
    groups = {name: _places(bench, name) for name in settings}
    calls = [
        partial(_make, bench, _options(bench, settings[name], seed), folder)
        for name, folders in groups.items()
        for seed, folder in folders.items()
    ]
    run_calls(calls, min(config.processes, len(calls)))
    return final_rows(
        prepared.task,
        prepared.splits["evaluate"].references,
        {name: {seed: _answers(bench, place) for seed, place in folders.items()} for name, folders in groups.items()},
        {name: Artifact(folder=next(iter(folders.values())) / "model") for name, folders in groups.items()},
        {f"trial {trial.number}": trial.number for trial in chosen},
        length=bench.latency_length,
    )


def _places(bench: TeacherBench, name: str) -> dict[int, Path]:
    """Seed to its folder; of seeds that no trial was chosen by."""
    first = bench.config.finetuning.teacher_seed + 1
    folder = bench.folder / "confirmed" / name.replace(" ", "-")
    return {seed: folder / f"seed-{seed}" for seed in range(first, first + bench.config.after.seeds)}


def _options(bench: TeacherBench, settings: Mapping[str, Value], seed: int) -> FinetuneOptions:
    return dataclasses.replace(finetune_options(bench.config.finetuning, settings), teacher_seed=seed)


def _make(bench: TeacherBench, options: FinetuneOptions, folder: Path) -> None:
    ready_teacher(
        bench.source,
        task_for(bench.data),
        options,
        folder,
        max_length=bench.config.data.max_length,
        precision=bench.config.precision,
    )


def _answers(bench: TeacherBench, folder: Path) -> np.ndarray:
    model = load_for_task(str(folder / "model"), bench.prepared.task, seed=0).model
    return bench.prepared.decode(predict_logits(model, bench.prepared, "evaluate"), "evaluate")


def apply_teacher(bench: TeacherBench, study: optuna.Study, which: str) -> None:
    """Fine-tune with the settings of one trial, as teacher.finetune does, in a run folder of its own.

    Raises:
        UserError: no such trial, or none that is finished.
    """
    config = bench.config
    settings, number = chosen_settings(study, which, config.searching)
    out = config.runs / f"{bench.folder.name}-trial-{number}"
    finetune_command(
        FinetuneConfig(
            model=bench.source,
            out=out,
            data=config.data,
            training=finetune_options(config.finetuning, settings),
            precision=config.precision,
        )
    )
    say(f"python -m distill.run --teacher {out} takes it as a teacher")
