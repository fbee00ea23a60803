"""The chain as data: which steps a model goes through, in which order."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common.families import max_length as longest
from distill.compress_chain import Step
from distill.compress_options import CompressOptions
from distill.compress_prune import Pruning
from distill.compress_trim import Trimming
from distill.placed_answers import Answers
from distill.recovery import Training
from distill.transfer_sets import key_of, stored_logits, weights_digest
from teacher.prepare import predict_logits, prepare
from teacher.sources import load_for_task
from teacher.tasks.base import Task


@dataclass(frozen=True, kw_only=True)
class Work:
    """What the steps of a chain need beside their options."""

    task: Task
    max_length: int
    training: Training
    answers: Callable[[], Answers]
    """The teacher's to the training split."""
    scored: bool = True
    """int8 is looked at on the selection split, and parts that lose too much stay in fp32."""


def work_for(
    task: Task,
    teacher: Path,
    folder: Path,
    *,
    options: CompressOptions,
    max_length: int,
    precision: str,
    checkpoint_every: int,
    seed: int,
) -> Work:
    """The work of a chain with this teacher, whose answers are kept under `folder` and computed when asked for."""

    def answers() -> Answers:
        loaded = load_for_task(str(teacher), task, seed=0)
        limit = min(max_length, longest(loaded.model.config))
        prepared = prepare(task, loaded.tokenizer, limit)
        # Logits with a threshold added may lie there from before.
        as_they_come = ("as they come",) if task.settings else ()
        path = stored_logits(
            folder / "teacher",
            len(prepared.splits["train"]),
            key=key_of(weights_digest(str(teacher)), task.data.fingerprint, limit, precision, *as_they_come),
            compute=lambda: predict_logits(
                loaded.model,
                prepared,
                "train",
                precision=precision,
                label="teacher: answers to the training texts",
                tuned=False,
            ),
        )
        return Answers(logits=np.load(path), encoded=prepared.splits["train"])

    training = Training(
        learning_rate=options.recovery_rate, precision=precision, checkpoint_every=checkpoint_every, seed=seed
    )
    return Work(task=task, max_length=max_length, training=training, answers=answers)


def _pruning(options: CompressOptions, work: Work) -> Step | None:
    if options.prune is None:
        return None
    return Step(
        name="prune",
        title=f"pruned {options.prune:.0%} of {options.prune_target}",
        apply=Pruning(
            task=work.task,
            options=options,
            training=work.training,
            max_length=work.max_length,
            answers=work.answers,
        ),
    )


def _trimming(options: CompressOptions, work: Work) -> Step | None:
    if not options.trim_vocabulary:
        return None
    apply = Trimming(task=work.task, options=options, max_length=work.max_length)
    return Step(name="trim", title="vocabulary trimmed", apply=apply)


def _exporting(options: CompressOptions, work: Work) -> Step | None:
    if not options.exported:
        return None
    # Here, since onnx and onnxruntime are extras.
    from distill.compress_ship import Exporting

    return Step(name="onnx", title="ONNX", apply=Exporting(task=work.task, max_length=work.max_length))


def _quantising(options: CompressOptions, work: Work) -> Step | None:
    if not options.int8:
        return None
    from distill.compress_ship import Exporting, Quantising

    quantising = Quantising(task=work.task, options=options, scored=work.scored)
    if options.qat_epochs is None or not work.scored:
        return Step(name="int8", title="int8", apply=quantising)
    from distill.compress_qat import Retraining

    retraining = Retraining(
        quantising=quantising,
        exporting=Exporting(task=work.task, max_length=work.max_length),
        training=dataclasses.replace(work.training, learning_rate=options.qat_rate),
        answers=work.answers,
        epochs=options.qat_epochs,
    )
    return Step(name="int8", title="int8", apply=retraining)


STEPS: Mapping[str, Callable[[CompressOptions, Work], Step | None]] = {
    "trim": _trimming,
    "prune": _pruning,
    "onnx": _exporting,
    "int8": _quantising,
}
"""In order; each gives its step, or None where the options do not ask for it."""

RUNTIME_STEPS = ("onnx", "int8")
"""Those that change what runs a model: the reference goes through them too, so that like is compared with like."""


def steps_for(options: CompressOptions, work: Work) -> list[Step]:
    """The steps that the options ask for."""
    found = (build(options, work) for build in STEPS.values())
    return [step for step in found if step is not None]


def reference_steps(options: CompressOptions, work: Work) -> list[Step]:
    """What the reference goes through for its rows on other runtimes; it is not trained."""
    options = dataclasses.replace(options, qat_epochs=None, qat_rate=CompressOptions.qat_rate)
    found: list[Any] = [STEPS[name](options, work) for name in RUNTIME_STEPS]
    return [step for step in found if step is not None]
