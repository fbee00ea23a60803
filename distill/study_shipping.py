"""What a trial's student ships as: trimmed, pruned, for another runtime; measured and asked as what it then is."""

import dataclasses
import itertools
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from transformers import PretrainedConfig

from common.files import write_json
from distill import runtimes
from distill.compress_chain import Artifact, run_chain
from distill.compress_options import CompressOptions
from distill.compress_prune import check_share
from distill.compress_steps import Work, steps_for
from distill.placed_answers import Answers
from distill.recovery import Training
from distill.study_costs import costs_of, random_weights, without_start
from distill.study_space import Space, Value, samples
from students.build import build_student, with_head
from students.onnx_folder import need
from students.presets import StudentConfig
from teacher.loop_config import resolve_precision
from teacher.tasks.base import Encoded

if TYPE_CHECKING:
    from distill.study_trial import Bench

PARTS = ("trim", "prune", "runtime")
"""Parts of a space that say what is done to a finished student."""
OUTCOME = "shipped.json"


def compression(settings: Mapping[str, Value]) -> CompressOptions:
    """The chain of a trial, as distill.compress and distill.run have it."""
    runtime = settings.get("runtime", "torch")
    return CompressOptions(
        trim_vocabulary=settings.get("trim") == "on",
        prune=float(settings.get("prune", 0.0)) or None,
        onnx=runtime == "onnx",
        int8=runtime == "int8",
    )


def fixed_chain(space: Space) -> dict[str, Value]:
    """What is done to every student of the study."""
    found = {name: space[name].fixed for name in PARTS if name in space}
    return {name: value for name, value in found.items() if value is not None}


def check_shipping(space: Space) -> None:
    """Raise UserError where packages are missing that some trials need."""
    if set(space["runtime"].choices) - {"torch"}:
        for module in ("onnx", "onnxscript", "onnxruntime"):
            need(module)


def check_pruned(
    space: Space, student: Callable[[Mapping[str, Value]], StudentConfig], teacher: PretrainedConfig, head: str
) -> None:
    """Raise UserError where the smallest students of the space have not so much that could go, or cannot be pruned.

    `student`: of settings, for such a teacher. `head`: a key of common.heads.AUTO_CLASSES.
    """
    share = max(float(choice) for choice in space["prune"].choices)
    if share == 0:
        return
    low = samples(space)[0]
    varied = {
        name: space[name].choices or sorted({space[name].low, space[name].high})
        for name in ("heads", "hidden")
        if name in space
    }
    with torch.device("meta"):
        of_its_shape = with_head(teacher, head)
    for sizes in itertools.product(*varied.values()):
        shape = student(low | {name: int(size) for name, size in zip(varied, sizes, strict=True)})
        model = build_student(without_start(shape), of_its_shape, seed=0)
        check_share(model, compression({"prune": share}), lambda shape: shape.encoder_parameters)


def chain_work(bench: "Bench", seed: int, *, scored: bool = True) -> Work:
    """What the steps need; the teacher's answers are those that all trials share."""
    shared = bench.shared
    return Work(
        task=bench.teacher.prepared.task,
        max_length=shared.max_length,
        training=Training(
            learning_rate=CompressOptions().recovery_rate,
            precision=resolve_precision(shared.precision),
            checkpoint_every=shared.checkpoint_every,
            seed=seed,
        ),
        answers=lambda: Answers(
            logits=np.load(shared.teacher_logits["labeled"]), encoded=bench.teacher.prepared.splits["train"]
        ),
        scored=scored,
    )


def shipped(bench: "Bench", settings: Mapping[str, Value], model: Path, folder: Path, seed: int) -> Artifact:
    """The last artifact of a trained model's chain, in `folder`; the model itself where there is no chain."""
    made = run_chain(Artifact(folder=model), steps_for(compression(settings), chain_work(bench, seed)), folder)
    return made[-1].artifact if made else Artifact(folder=model)


def outcome(bench: "Bench", settings: Mapping[str, Value], folder: Path, seed: int) -> tuple[float, dict[str, float]]:
    """Selection metric, higher better, and costs of what the model in `folder` ships as, which is not kept."""
    path = folder / OUTCOME
    if not path.is_file():
        artifact = shipped(bench, settings, folder / "model", folder / "shipped", seed)
        task = bench.teacher.prepared.task
        split, predictions = answered(bench, artifact, "select")
        value = task.metrics(predictions, split.references)[task.data.metric]
        score = task.signed(value)
        write_json(path, {"score": score, "costs": costs_of(bench, artifact)})
    shutil.rmtree(folder / "shipped", ignore_errors=True)
    found = json.loads(path.read_text(encoding="utf-8"))
    return found["score"], found["costs"]


def answered(bench: "Bench", artifact: Artifact, split: str) -> tuple[Encoded, np.ndarray]:
    """A split as the artifact's tokenizer cuts it, and its predictions for it."""
    task = bench.teacher.prepared.task
    runtime, _ = runtimes.RUNTIMES[artifact.kind](artifact, task, "fp32")
    return runtimes.answered(runtime, task, split, bench.shared.max_length)


def untrained(bench: "Bench", shape: StudentConfig, settings: Mapping[str, Value], folder: Path) -> Artifact:
    """What a student of random weights ships as, without recovery and without a look at what int8 loses.

    Which heads and units go is drawn: the trained one loses as many parameters, and others.
    """
    start = random_weights(bench, shape, folder / "model")
    options = compression(settings)
    if options.prune is not None:
        options = dataclasses.replace(options, recovery=False, prune_steps=1, importance="random")
    made = run_chain(start, steps_for(options, chain_work(bench, 0, scored=False)), folder / "chain")
    return made[-1].artifact if made else start
