"""Recovery: a model that was cut learns from the model that it was cut from, and from the teacher's answers."""

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedModel

from distill.distiller import Distiller, without_dropout
from distill.placed_answers import Placed
from distill.projections import fitted_projection
from distill.recipes import TOKENS
from distill.stages import Stage, filled
from teacher.batches import mean_padded
from teacher.head import standardised_head
from teacher.loop import Outcome, train
from teacher.prepare import Prepared
from teacher.rows import only_rows

SAMPLE = 8
"""Batches of 32 training examples that importance is seen on, and projections are fitted to."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """How recovery trains."""

    learning_rate: float
    precision: str
    checkpoint_every: int
    seed: int


def recovery_stage(layers: Sequence[int], *, epochs: float, learning_rate: float) -> Stage:
    """The stage: the teacher's logits, and the states of the model before the cut, layer by layer.

    `layers` are those of the model before that the model's own come from, counted from 1.
    """
    return Stage(
        name="recovery",
        description="The teacher's logits, and the hidden states of the model before pruning, on the task's texts.",
        teacher="finetuned",
        data="train",
        tokens=TOKENS,
        losses={"soft": 1.0, "embedding": 1.0, "hidden": 1.0},
        layers=",".join(map(str, layers)),
        learning_rate=learning_rate,
        epochs=epochs,
        select=True,
    )


def recover(
    model: PreTrainedModel,
    before: PreTrainedModel,
    prepared: Prepared,
    answers: Placed,
    stage: Stage,
    training: Training,
    folder: Path,
    *,
    label: str,
    within: Callable[[PreTrainedModel], AbstractContextManager[object]] = contextlib.nullcontext,
) -> Outcome:
    """Train `model` in place; `folder` has history and checkpoints, and is gone on with.

    Args:
        model: what was cut.
        before: what it was cut from, of the same vocabulary.
        prepared: the task, in that vocabulary.
        answers: the teacher's to the training split; the soft loss is left out where there are none.
        stage: as `recovery_stage` gives it.
        training: rate, precision, seed.
        folder: of this recovery.
        label: for progress.
        within: from the model to a block that it is trained in, as in students.fake_quantise.
    """
    encoded = prepared.splits["train"]
    if answers.logits is None:
        stage = dataclasses.replace(stage, losses={name: w for name, w in stage.losses.items() if name != "soft"})
    stage = filled(stage, mean_padded(encoded.lengths))
    batches = prepared.batches("train", stage.batch_size, training.seed, tokens=stage.tokens)
    layers = tuple(int(layer) for layer in stage.layers.split(","))
    distiller = Distiller(
        model,
        before,
        stage,
        prepared.task,
        projection=fitted_projection(model, before, prepared.sample(SAMPLE), layers),
        teacher_logits=answers.logits,
        lengths=encoded.lengths,
        entries=prepared.task.weights(encoded),
        pairs=encoded.pairs,
        carried=answers.carried,
    )
    with (
        only_rows(model, prepared.occurring("train", "select")),
        without_dropout(model),
        standardised_head(model, prepared.task),
        within(model),
    ):
        return train(
            distiller,
            batches,
            stage.loop(
                examples=len(batches.lengths),
                seed=training.seed,
                precision=training.precision,
                checkpoint_every=training.checkpoint_every,
            ),
            folder,
            label=label,
            evaluate=lambda: prepared.score(model, "select", training.precision),
        )
