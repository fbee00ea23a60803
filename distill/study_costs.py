"""Milliseconds and megabytes of what a student ships as, measured on a machine where other trials train meanwhile."""

import dataclasses
import json
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import optuna

from common.artifact import CardText, load, save
from common.files import write_json
from distill.compress_chain import Artifact
from distill.compress_measure import bound
from distill.measure import measure_latency, time_calls, weight_bytes
from distill.runtimes import RUNTIMES
from reports.record import Latency
from students.albert import share
from students.build import build_student
from students.onnx_folder import MODEL
from students.presets import StudentConfig
from teacher.tasks.base import Task

if TYPE_CHECKING:
    from distill.study_trial import Bench

YARDSTICK = "yardstick.json"
"""In the folder of a study, and a user attribute of it."""


def costs_of(bench: "Bench", artifact: Artifact) -> dict[str, float]:
    """Milliseconds and megabytes of it, as the limits mean them."""
    return {"latency_ms": undisturbed(bench, artifact), "size_mb": model_bytes(artifact) / 1e6}


def undisturbed(bench: "Bench", artifact: Artifact) -> float:
    """Milliseconds as if nothing else ran.

    Other trials slow whatever is timed beside them. So it is timed in turns with the preset, and counts as so many
    times what the preset took before the trials.
    """
    before = yardstick(bench)
    with tempfile.TemporaryDirectory() as folder:
        times = _timed(bench, {"own": artifact, "preset": _preset(bench, Path(folder))})
    return before * times["own"] / times["preset"]


def yardstick(bench: "Bench") -> float:
    """Milliseconds of the preset with random weights, measured once a study, by whoever asks first."""
    path = bench.folder / YARDSTICK
    if not path.is_file():
        with tempfile.TemporaryDirectory() as folder:
            write_json(path, _timed(bench, {"preset": _preset(bench, Path(folder))}))
    return json.loads(path.read_text(encoding="utf-8"))["preset"]


def share_yardstick(study: optuna.Study, folder: Path) -> None:
    """Let the machines of a study mean one thing by a millisecond: what the first of them measured is in its store.

    The folder has what the store has, or gives it, where it has been measured.
    """
    path, known = folder / YARDSTICK, study.user_attrs.get(YARDSTICK)
    if known is not None:
        write_json(path, known)
    elif path.is_file():
        study.set_user_attr(YARDSTICK, json.loads(path.read_text(encoding="utf-8")))


def _preset(bench: "Bench", folder: Path) -> Artifact:
    return random_weights(bench, without_start(bench.student({})), folder / "model")


def _timed(bench: "Bench", artifacts: Mapping[str, Artifact]) -> dict[str, float]:
    return milliseconds(artifacts, bench.teacher.prepared.task, bench.latency_length, seconds=2.0 * len(artifacts))


def milliseconds(artifacts: Mapping[str, Artifact], task: Task, length: int, *, seconds: float) -> dict[str, float]:
    """Median of `latencies`."""
    return {name: cell.p50_ms for name, cell in latencies(artifacts, task, length, seconds=seconds).items()}


def latencies(artifacts: Mapping[str, Artifact], task: Task, length: int, *, seconds: float) -> dict[str, Latency]:
    """Of a text of `length` pieces on one thread, of each artifact in turn, on the runtime that it ships on."""
    if all(artifact.kind == "torch" for artifact in artifacts.values()):
        models = {name: share(load(artifact.folder)[0]) for name, artifact in artifacts.items()}
        found = measure_latency(models, batches=(1,), lengths=(length,), threads=(1,), seconds=seconds)
    else:
        runtimes = {name: RUNTIMES[artifact.kind](artifact, task, "fp32")[0] for name, artifact in artifacts.items()}
        calls = {name: partial(bound, runtime) for name, runtime in runtimes.items()}
        found = time_calls(calls, cells=[(1, length)], seconds=seconds)
    return {name: cells[0] for name, cells in found.items()}


def model_bytes(artifact: Artifact) -> int:
    """Of its weights."""
    return weight_bytes(artifact.folder) if artifact.kind == "torch" else (artifact.folder / MODEL).stat().st_size


def without_start(student: StudentConfig) -> StudentConfig:
    """The same shape with random weights, under one name."""
    return dataclasses.replace(student, start="random", teacher_layers=None, name="student")


def random_weights(bench: "Bench", shape: StudentConfig, folder: Path) -> Artifact:
    """A student of this shape in `folder`, to be measured."""
    model = build_student(shape, bench.teacher.model, seed=0)
    card = CardText(title="student", description="Random weights, to be measured.", task="none")
    save(model, bench.teacher.prepared.tokenizer, folder, card=card)
    return Artifact(folder=folder)
