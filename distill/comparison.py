"""From finished jobs to the record: quality, size, speed, curves and distances of every model, and what they say."""

import itertools
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedModel

from common.artifact import load
from common.progress import say
from distill.baseline import NAMES, tfidf_baseline
from distill.config import RunConfig
from distill.distances import layer_distances
from distill.evaluate import majority, quality
from distill.job import Job
from distill.measure import measure_size, measure_speed
from distill.provenance import provenance
from distill.runs import settings
from distill.workers import threads_each
from reports.record import Curve, ModelCard, Record, Speed, StageCard, TaskCard
from students.albert import share
from teacher.data import Example
from teacher.finetune import Teacher
from teacher.history import Row, read_rows
from teacher.loop import Outcome, resolve_precision
from teacher.prepare import Prepared, predict_logits

TEACHER = "teacher"


def compared(
    config: RunConfig, run: Path, teacher: Teacher, jobs: Sequence[Job], *, notes: Sequence[str], started: float
) -> Record:
    """The record of a run whose jobs are all finished; `started` is time.monotonic() of its first moment."""
    groups = [list(group) for _, group in itertools.groupby(sorted(jobs, key=_row_name), key=_row_name)]
    groups.sort(key=lambda group: jobs.index(group[0]))
    students = {_row_name(group[0]): share(load(group[0].model_folder)[0]) for group in groups if not group[0].twin}
    teacher_answers = teacher.prepared.task.decode(predict_logits(teacher.model, teacher.prepared, "evaluate"))
    speeds = _speeds(teacher, students, groups)
    cards = [_teacher_card(teacher, teacher_answers, speeds[TEACHER])]
    cards += [_student_card(group, groups, teacher, teacher_answers, students, speeds) for group in groups]
    cards += _baselines(teacher, teacher_answers)
    return Record(
        name=run.name,
        provenance=provenance(
            config=settings(config),
            seeds=range(config.distilling.seeds),
            threads=threads_each(len(jobs), config.distilling.workers),
            precision=resolve_precision(config.precision),
            wall_seconds=time.monotonic() - started,
            argv=sys.argv,
        ),
        task=_task_card(teacher.prepared),
        models=tuple(cards),
        notes=(*notes, *teacher.prepared.truncations()),
    )


def _row_name(job: Job) -> str:
    return f"{job.student.name} without distillation" if job.twin else job.student.name


def _answers(group: list[Job], prepared: Prepared) -> dict[int, np.ndarray]:
    return {job.seed: prepared.task.decode(np.load(job.answers)) for job in group}


def _speeds(teacher: Teacher, students: dict[str, PreTrainedModel], groups: list[list[Job]]) -> dict[str, Speed]:
    """Latency of the teacher and every student, interleaved; a twin has its student's shape and is not measured."""
    say("measuring latency and memory")
    folders = {TEACHER: teacher.folder, **{_row_name(group[0]): group[0].model_folder for group in groups}}
    return measure_speed({TEACHER: teacher.model, **students}, folders)


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


def _teacher_card(teacher: Teacher, answers: np.ndarray, speed: Speed) -> ModelCard:
    references = teacher.prepared.splits["evaluate"].labels
    stages: tuple[StageCard, ...] = ()
    curves: tuple[Curve, ...] = ()
    if teacher.outcome is not None:
        stages = (_finetuning_card(teacher.outcome, teacher.prepared),)
        curves = _curves("fine-tuning", teacher.outcome.history)
    return ModelCard(
        name=TEACHER,
        role="teacher",
        architecture=_architecture(teacher.model),
        start=teacher.origin,
        quality=quality(teacher.prepared.task, {0: answers}, references, teacher=None),
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


def _student_card(
    group: list[Job],
    groups: list[list[Job]],
    teacher: Teacher,
    teacher_answers: np.ndarray,
    students: dict[str, PreTrainedModel],
    speeds: dict[str, Speed],
) -> ModelCard:
    first = group[0]
    prepared = teacher.prepared
    references = prepared.splits["evaluate"].labels
    model = students[first.student.name]
    twin = next((other for other in groups if other[0].twin and other[0].student == first.student), None)
    score = quality(
        prepared.task,
        _answers(group, prepared),
        references,
        teacher=teacher_answers,
        twin=None if first.twin or twin is None else _answers(twin, prepared),
    )
    return ModelCard(
        name=_row_name(first),
        role="twin" if first.twin else "student",
        twin_of=first.student.name if first.twin else None,
        architecture=_architecture(model),
        start=START_WORDS[first.student.start].format(layers=_layers_in_words(first), folder=first.student.folder),
        quality=score,
        size=measure_size(model, first.model_folder),
        speed=None if first.twin else speeds[first.student.name],
        stages=tuple(_stage_cards(first, prepared)),
        curves=tuple(
            itertools.chain.from_iterable(
                _curves(stage.name, read_rows(first.folder / stage.name / "history.jsonl")) for stage in first.stages
            )
        ),
        layer_distances=() if first.twin else layer_distances(model, teacher.model, prepared),
        folder=str(first.model_folder),
    )


START_WORDS = {
    "prune": "cut out of the fine-tuned teacher: layers {layers}, the most active channels, head dimensions, units",
    "copy": "teacher layers {layers} copied, embeddings too",
    "svd": "embeddings by truncated SVD of the teacher's, the blocks from its layers {layers}",
    "random": "random (truncated normal, 0.02)",
    "general": "distilled on general text before, in {folder}",
}


def _layers_in_words(job: Job) -> str:
    """Counted from 1, as people do."""
    return ", ".join(str(layer + 1) for layer in job.student.teacher_layers or ())


def _stage_cards(job: Job, prepared: Prepared) -> list[StageCard]:
    return [
        StageCard(
            name=stage.name,
            description=stage.description,
            losses=dict(stage.losses),
            steps=outcome["steps"],
            epochs=outcome["epochs"],
            seconds=outcome["seconds"],
            examples=len(prepared.splits["train"]) if stage.data == "train" else (stage.steps or 0) * stage.batch_size,
            learning_rate=stage.learning_rate,
            selected_step=outcome["selected_step"],
        )
        for stage, outcome in zip(job.stages, job.outcomes(), strict=True)
    ]


def _curves(stage: str, rows: list[Row]) -> tuple[Curve, ...]:
    """One series a name that occurs in the history."""
    names = dict.fromkeys(name for row in rows for name in row.values)
    series = {name: [(row.step, row.values[name]) for row in rows if name in row.values] for name in names}
    return tuple(
        Curve(
            stage=stage, name=name, steps=tuple(step for step, _ in points), values=tuple(value for _, value in points)
        )
        for name, points in series.items()
    )


def _baselines(teacher: Teacher, teacher_answers: np.ndarray) -> list[ModelCard]:
    """TF-IDF and a linear model on the same rows."""
    task, data = teacher.prepared.task, teacher.prepared.task.data
    train, evaluate = data.splits["train"], data.splits["evaluate"]
    say("fitting the TF-IDF baseline")
    predictions = tfidf_baseline(
        *_columns(train),
        [example.label for example in train],
        *_columns(evaluate),
        kind=task.kind,
        seed=0,
    )
    references = teacher.prepared.splits["evaluate"].labels
    score = quality(task, {0: predictions}, references, teacher=teacher_answers)
    return [ModelCard(name=NAMES[task.kind], role="baseline", quality=score)]


def _columns(examples: Sequence[Example]) -> tuple[list[str], list[str] | None]:
    """Texts, and second texts where there are any."""
    paired = any(example.pair is not None for example in examples)
    return [example.text for example in examples], [example.pair or "" for example in examples] if paired else None


def _task_card(prepared: Prepared) -> TaskCard:
    task, data = prepared.task, prepared.task.data
    return TaskCard(
        name=data.name,
        kind=data.kind,
        labels=data.labels,
        metric=data.metric,
        higher_is_better=task.higher_is_better,
        rows={name: len(examples) for name, examples in data.splits.items()},
        origins=dict(data.origins),
        majority=majority(task, prepared.splits["evaluate"].labels),
        fingerprint=data.fingerprint,
        sources=dict(data.sources),
        notes=data.notes,
    )
