"""A record's cards: what it says of the teacher, of every student, of the baseline and of the task."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from transformers import PreTrainedModel

from common.progress import say
from distill.baseline import NAMES, tfidf_baseline
from distill.contest import answers
from distill.distances import layer_distances
from distill.evaluate import quality
from distill.job import Job
from distill.measure import measure_size
from distill.traces import compared_layers, curves_of, stage_cards, stage_curves
from distill.two_tokenizers import reads_otherwise
from reports.record import Curve, ModelCard, Speed, StageCard, TaskCard
from teacher.data import text_columns
from teacher.difference import majority
from teacher.loop import Outcome
from teacher.prepare import Prepared
from teacher.ready import Teacher

TEACHER = "teacher"


def _architecture(model: PreTrainedModel) -> dict[str, Any]:
    config = model.config
    entries = {
        "family": config.model_type,
        "layers": config.num_hidden_layers,
        "hidden": config.hidden_size,
        "heads": config.num_attention_heads,
        "ffn": getattr(config, "intermediate_size", None) or getattr(config, "hidden_dim", None),
        "embedding": getattr(config, "embedding_size", None),
        "vocabulary": config.vocab_size,
    }
    return {name: value for name, value in entries.items() if value is not None}


def teacher_card(teacher: Teacher, answers: np.ndarray, speed: Speed | None) -> ModelCard:
    """The teacher's row; one without a speed is only its outputs, and has no size either."""
    references = teacher.prepared.splits["evaluate"].references
    score = quality(teacher.prepared.task, {0: answers}, references, teacher=None)
    if speed is None:
        return ModelCard(name=TEACHER, role="teacher", start=teacher.origin, quality=score)
    stages: tuple[StageCard, ...] = ()
    curves: tuple[Curve, ...] = ()
    if teacher.outcome is not None:
        stages = (_finetuning_card(teacher.outcome, teacher.prepared),)
        curves = curves_of("fine-tuning", teacher.outcome.history)
    return ModelCard(
        name=TEACHER,
        role="teacher",
        architecture=_architecture(teacher.model),
        start=teacher.origin,
        quality=score,
        size=measure_size(teacher.model, teacher.folder),
        speed=speed,
        stages=stages,
        curves=curves,
        folder=str(teacher.folder),
    )


def _finetuning_card(outcome: Outcome, prepared: Prepared) -> StageCard:
    return StageCard(
        name="fine-tuning",
        description="The labels.",
        losses={"hard": 1.0},
        steps=outcome.steps,
        epochs=outcome.epochs,
        seconds=outcome.seconds,
        examples=len(prepared.splits["train"]),
        learning_rate=max((row.values.get("learning rate", 0.0) for row in outcome.history), default=0.0),
        selected_step=outcome.selected_step,
    )


def student_card(
    group: list[Job],
    groups: list[list[Job]],
    teacher: Teacher,
    teacher_answers: np.ndarray | None,
    students: dict[str, PreTrainedModel],
    speeds: dict[str, Speed],
    sizes: Mapping[str, int],
) -> ModelCard:
    """A student's row, or its twin's; `group` has its seeds, `groups` those of every row."""
    first = group[0]
    prepared = teacher.prepared
    references = prepared.splits["evaluate"].references
    model = students[first.row]
    twin = next((other for other in groups if other[0].twin and other[0].student == first.student), None)
    score = quality(
        prepared.task,
        answers(group, prepared),
        references,
        teacher=teacher_answers,
        twin=None if first.twin or twin is None else answers(twin, prepared),
    )
    return ModelCard(
        name=first.row,
        role="twin" if first.twin else "student",
        twin_of=first.student.name if first.twin else None,
        student=first.student.name if first.recipe is not None else None,
        architecture=_architecture(model),
        start=START_WORDS[first.student.start].format(layers=_layers_in_words(first), folder=first.student.folder),
        quality=score,
        size=measure_size(model, first.model_folder),
        speed=None if first.twin else speeds[first.row],
        stages=tuple(stage_cards(first, sizes)),
        curves=tuple(curve for stage in first.stages for curve in stage_curves(stage.name, first.folder / stage.name)),
        layer_distances=()
        if first.twin or TEACHER not in speeds or reads_otherwise(first.model_folder, prepared.tokenizer)
        else layer_distances(
            model, teacher.model, prepared, compared_layers(first, teacher.model.config.num_hidden_layers)
        ),
        folder=str(first.model_folder),
    )


START_WORDS = {
    "prune": "cut out of the fine-tuned teacher: layers {layers}, the most active channels, head dimensions, units",
    "copy": "teacher layers {layers} copied, embeddings too",
    "svd": "embeddings by truncated SVD of the teacher's, the blocks from its layers {layers}",
    "embeddings": "the teacher's table of pieces; all else random",
    "random": "random (truncated normal, 0.02)",
    "general": "distilled on general text before, in {folder}",
}


def _layers_in_words(job: Job) -> str:
    """Counted from 1, as people do."""
    return ", ".join(str(layer + 1) for layer in job.student.teacher_layers or ())


def baseline_card(teacher: Teacher, teacher_answers: np.ndarray | None) -> ModelCard | None:
    """TF-IDF and a linear model on the same rows; None for kinds of task that they have no answer to."""
    task, data = teacher.prepared.task, teacher.prepared.task.data
    if task.kind not in NAMES:
        return None
    train, evaluate = data.splits["train"], data.splits["evaluate"]
    say("fitting the TF-IDF baseline")
    predictions = tfidf_baseline(
        *text_columns(train),
        task.label_array(train) if task.kind == "multilabel" else [example.label for example in train],
        *text_columns(evaluate),
        kind=task.kind,
        seed=0,
    )
    references = teacher.prepared.splits["evaluate"].references
    score = quality(task, {0: predictions}, references, teacher=teacher_answers)
    return ModelCard(name=NAMES[task.kind], role="baseline", quality=score)


def task_card(prepared: Prepared) -> TaskCard:
    task, data = prepared.task, prepared.task.data
    return TaskCard(
        name=data.name,
        kind=data.kind,
        labels=data.labels,
        metric=data.metric,
        higher_is_better=task.higher_is_better,
        rows={name: len(examples) for name, examples in data.splits.items()},
        origins=dict(data.origins),
        majority=majority(task, prepared.splits["evaluate"].references),
        fingerprint=data.fingerprint,
        sources=dict(data.sources),
        notes=data.notes,
    )
