"""One trial: costs measured before anything is trained, then trainings of rising length until it is given up."""

import dataclasses
import fcntl
import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import optuna

from common.errors import UserError
from common.families import max_length as longest
from common.files import write_json
from common.progress import say
from distill.changes import ChangeOptions
from distill.config import DistilOptions, RunConfig
from distill.job import Job, Shared
from distill.plan import pieces_a_text, plan, students_for
from distill.study_config import StudyConfig
from distill.study_costs import costs_of, without_start
from distill.study_objectives import SCORE, beyond, constrain, given_up, lacking, values
from distill.study_runner import give_up
from distill.study_shipping import compression, outcome, untrained
from distill.study_space import Space, Value
from distill.training import run_job
from students.presets import StudentConfig
from students.shape import ShapeOptions
from teacher.data import TaskData
from teacher.prepare import prepare
from teacher.ready import Teacher
from teacher.sources import load_for_task
from teacher.tasks import task_for

_SHAPE = tuple(field.name for field in dataclasses.fields(ShapeOptions))


def run_config(config: StudyConfig, settings: Mapping[str, Value], **distilling: Any) -> RunConfig:
    """The settings of a trial as options of distill.run; `distilling`: further fields of DistilOptions."""
    weights = {name.removeprefix("weight_"): value for name, value in settings.items() if name.startswith("weight_")}
    shape = {name: settings[name] for name in _SHAPE if name in settings}
    return RunConfig(
        student=config.student,
        teacher=config.teacher,
        precision=config.precision,
        runs=config.runs,
        reports=config.reports,
        data=config.data,
        finetuning=config.finetuning,
        scratch=config.scratch,
        shape=ShapeOptions(**shape),  # type: ignore[arg-type]
        changes=ChangeOptions(
            layer_map=None if "layer_map" not in settings else str(settings["layer_map"]),
            temperature=None if "temperature" not in settings else str(settings["temperature"]),
            loss_weights=",".join(f"{name}={value}" for name, value in weights.items()) or None,
            rate_factor=float(settings.get("rate_factor", 1.0)),
            batch_tokens=None if "batch_tokens" not in settings else int(settings["batch_tokens"]),
            class_weights=config.class_weights,
        ),
        distilling=DistilOptions(
            recipe=config.recipe,
            start=config.start,
            budget=float(settings.get("budget", 1.0)) * distilling.pop("share", 1.0),
            **{"twins": False, **distilling},
        ),
        compress=compression(settings),
    )


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What all trials of a study have in common; small enough to be sent to another process."""

    config: StudyConfig
    folder: Path
    space: Space
    shared: Shared
    teacher_score: float
    """On the selection split, higher better."""

    @property
    def latency_length(self) -> int:
        """Pieces of the text that latency is measured on; an exported model takes no more than the task's texts."""
        exported = set(self.space["runtime"].choices) - {"torch"}
        limit = self.shared.max_length if exported else longest(self.teacher.model.config)
        return min(self.config.searching.latency_length, limit)

    def __getstate__(self) -> dict[str, Any]:
        """Without the teacher: every process reads its own."""
        return {name: value for name, value in vars(self).items() if name != "teacher"}

    @cached_property
    def teacher(self) -> Teacher:
        """Read once a process."""
        loaded = load_for_task(self.shared.teacher, task_for(self.shared.data), seed=0)
        prepared = prepare(task_for(self.shared.data), loaded.tokenizer, self.shared.max_length)
        origin = self.shared.teacher_origin
        return Teacher(
            model=loaded.model, prepared=prepared, folder=Path(self.shared.teacher), origin=origin, outcome=None
        )

    @property
    def data(self) -> TaskData:
        return self.shared.data

    @property
    def origin(self) -> str:
        return self.shared.teacher_origin

    @property
    def shares(self) -> tuple[float, ...]:
        return self.config.searching.shares

    def run(self, study: optuna.Study, trial: optuna.Trial, settings: Mapping[str, Value], folder: Path) -> list[float]:
        """Measure the student, train it by rungs, ship it."""
        return _run(self, study, trial, settings, folder)

    def jobs(self, settings: Mapping[str, Value], folder: Path, *, share: float = 1.0, seeds: int = 1) -> list[Job]:
        """The trainings of a trial's student, whole or a share of their length, in `folder`."""
        options = run_config(self.config, settings, share=share, seeds=seeds)
        sizes = {"labeled": len(self.teacher.prepared.splits["train"])}
        students, pieces = students_for(options, self.teacher), pieces_a_text(None, self.teacher, {})
        return plan(options, self.teacher, students, sizes, folder, pieces=pieces)

    def student(self, settings: Mapping[str, Value]) -> StudentConfig:
        """Its shape and start."""
        return students_for(run_config(self.config, settings), self.teacher)[self.config.student]

    def score(self, settings: Mapping[str, Value], folder: Path, share: float, seed: int) -> float:
        """Train a share of the whole, or go on with it; the best selection metric of the last stage, higher better."""
        (job,) = self.jobs(settings, folder, share=share)
        job = dataclasses.replace(job, seed=seed, folder=folder)
        run_job(job, self.shared)
        value = job.outcomes()[-1]["selected_value"]
        if value is None:
            raise UserError(f"recipe {self.config.recipe}: its last stage does not look at the selection split")
        return float(value)


def _run(
    bench: Bench, study: optuna.Study, trial: optuna.Trial, settings: Mapping[str, Value], folder: Path
) -> list[float]:
    options = bench.config.searching
    costs = _noted(trial, measured(bench, settings))
    over = beyond(options, costs)
    constrain(trial, over)
    broken = [name for name, value in over.items() if value > 0]
    if broken:
        give_up(trial, "over the limit before training: " + ", ".join(f"{name} {costs[name]:.3g}" for name in broken))
    score = 0.0
    for rung, share in enumerate(options.shares):
        score = bench.score(settings, folder / f"rung-{rung}", share, options.seed)
        if share == 1 and compression(settings).anything:
            score, found = outcome(bench, settings, folder / f"rung-{rung}", options.seed)
            costs = _noted(trial, found)
            constrain(trial, {f"{name}, trained": value for name, value in beyond(options, costs).items()})
        _clear(folder / f"rung-{rung}")
        if given_up(options, study, trial, rung, score):
            # A sampler takes what has no constraint for better than any trial that lacks a little in the end.
            constrain(trial, lacking(options, score, bench.teacher_score))
            give_up(trial, f"given up at rung {rung + 1} of {len(options.shares)}")
    trial.set_user_attr(SCORE, score)
    constrain(trial, lacking(options, score, bench.teacher_score))
    say(f"trial {trial.number}: {score:.4f}, {costs['latency_ms']:.2f} ms, {costs['size_mb']:.1f} MB")
    return values(options, score, costs)


def _noted(trial: optuna.Trial, costs: dict[str, float]) -> dict[str, float]:
    for name, value in costs.items():
        trial.set_user_attr(name, value)
    return costs


def _clear(folder: Path) -> None:
    """What a finished training needs no more: its weights. Histories and outcomes stay."""
    shutil.rmtree(folder / "model", ignore_errors=True)
    for final in folder.glob("*/final"):
        shutil.rmtree(final)


def measured(bench: Bench, settings: Mapping[str, Value]) -> dict[str, float]:
    """Milliseconds and megabytes of what a student of this very architecture with random weights ships as.

    Each architecture is measured once a study.
    """
    shape, chain = without_start(bench.student(settings)), compression(settings)
    parts = (shape, bench.latency_length, *([chain] if chain.anything else []))
    key = hashlib.sha256(repr(parts).encode()).hexdigest()[:12]
    path = bench.folder / "costs" / f"{key}.json"
    if not path.is_file():
        with tempfile.TemporaryDirectory() as folder:
            artifact = untrained(bench, shape, settings, Path(folder))
            # A chain takes its time; only what is timed needs the machine for itself.
            with alone(bench.folder / "costs"):
                if not path.is_file():
                    write_json(path, costs_of(bench, artifact))
    return json.loads(path.read_text(encoding="utf-8"))


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold `folder` against the other workers of this machine, waiting for them."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".turn").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
