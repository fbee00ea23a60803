"""From finished jobs to the record: models loaded and measured, a card for each, and what they say together."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from transformers import PreTrainedModel

from common.artifact import CONFIG, load
from common.files import read_object
from common.progress import say
from common.provenance import provenance
from distill.cards import TEACHER, baseline_card, student_card, task_card, teacher_card
from distill.config import RunConfig
from distill.contest import recipe_notes
from distill.job import Job
from distill.measure import measure_speed
from distill.runs import settings
from distill.teacher_outputs import TeacherOutputs
from distill.transfer import TransferInputs, set_sizes
from distill.transfer_sets import TransferSet
from distill.workers import threads_each
from reports.record import ModelCard, Record, Speed, TaskCard
from students.albert import share
from teacher.loop_config import resolve_precision
from teacher.prepare import predict_logits, settings_of
from teacher.ready import Teacher


def compared(
    config: RunConfig,
    run: Path,
    teacher: Teacher,
    jobs: Sequence[Job],
    *,
    inputs: TransferInputs,
    sets: Mapping[str, TransferSet],
    notes: Sequence[str],
    started: float,
) -> Record:
    """The record of a run whose jobs are all finished; `started` is time.monotonic() of its first moment."""
    groups = _groups(jobs)
    students = _models(groups)
    teacher_answers = _teacher_answers(teacher, inputs.outputs)
    speeds = _speeds(teacher if inputs.outputs is None else None, students, groups, measured=config.speed)
    cards = [] if teacher_answers is None else [teacher_card(teacher, teacher_answers, speeds.get(TEACHER))]
    sizes = set_sizes(teacher.prepared, sets)
    cards += [student_card(group, groups, teacher, teacher_answers, students, speeds, sizes) for group in groups]
    baseline = baseline_card(teacher, teacher_answers)
    if baseline is not None:
        cards.append(baseline)
    task = task_card(teacher.prepared)
    useless = no_better_than_constant(task, cards)
    for note in useless:
        say(f"warning: {note}")
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
        task=task,
        models=tuple(cards),
        transfer=tuple(entry.card for entry in sets.values()),
        notes=(
            *notes,
            *recipe_notes(
                groups, teacher.prepared, equal=None if config.distilling.ablate else config.distilling.equal
            ),
            *teacher.prepared.truncations(),
            *setting_notes(teacher, groups),
            *useless,
        ),
    )


def no_better_than_constant(task: TaskCard, cards: Sequence[ModelCard]) -> list[str]:
    """One sentence on the models that always giving the same answer is as good as; none where there are none."""
    if task.majority is None:
        return []
    sign = 1 if task.higher_is_better else -1
    names = [card.name for card in cards if sign * card.quality.value <= sign * task.majority]
    return [f"No better than always giving the same answer ({task.majority:.4f}): {', '.join(names)}."] if names else []


def setting_notes(teacher: Teacher, groups: Sequence[Sequence[Job]]) -> list[str]:
    """With which numbers, found on the selection split, outputs are read; one sentence a number.

    Each model has its own, a twin too, though it is its student in shape and cost.
    """
    task = teacher.prepared.task
    found: dict[str, Mapping[str, float]] = {TEACHER: settings_of(teacher.model, task)}
    if task.settings:
        found |= {group[0].row: read_object(group[0].model_folder / CONFIG, advice="run again") for group in groups}
    seed = "; of the first seed" if any(len(group) > 1 for group in groups) else ""
    return [
        f"{name.replace('_', ' ').capitalize()}, found on the selection split{seed}: "
        + ", ".join(f"{row} {values[name]:.3f}" for row, values in found.items() if name in values)
        + "."
        for name in teacher.prepared.task.settings
    ]


def _groups(jobs: Sequence[Job]) -> list[list[Job]]:
    """The seeds of every row, in the order of the jobs."""
    rows = dict.fromkeys(job.row for job in jobs)
    return [[job for job in jobs if job.row == row] for row in rows]


def _models(groups: list[list[Job]]) -> dict[str, PreTrainedModel]:
    """By row; for a twin its student's, which has the same shape."""
    models = {group[0].row: share(load(group[0].model_folder)[0]) for group in groups if not group[0].twin}
    shapes = {group[0].student.name: models[group[0].row] for group in reversed(groups) if not group[0].twin}
    return {group[0].row: models.get(group[0].row, shapes[group[0].student.name]) for group in groups}


def _teacher_answers(teacher: Teacher, outputs: TeacherOutputs | None) -> np.ndarray | None:
    """The teacher's predictions for the evaluation split; None for outputs that lack some of it."""
    prepared = teacher.prepared
    if outputs is None:
        return prepared.decode(predict_logits(teacher.model, prepared, "evaluate"), "evaluate")
    examples = prepared.task.data.splits["evaluate"]
    return None if outputs.missing(examples) else prepared.decode(outputs.logits(examples), "evaluate")


def _speeds(
    teacher: Teacher | None, students: dict[str, PreTrainedModel], groups: list[list[Job]], *, measured: bool
) -> dict[str, Speed]:
    """By row, latency of the teacher, if it is a model, and every student, interleaved; empty where not `measured`.

    What has one shape is measured once: a twin has its student's, and so have the students of several recipes.
    """
    if not measured:
        rows = [*students] if teacher is None else [TEACHER, *students]
        return dict.fromkeys(rows, Speed(latency=(), peak_memory_bytes=None))
    say("measuring latency and memory")
    distilled = [group[0] for group in groups if not group[0].twin]
    once = {job.student.name: job.row for job in reversed(distilled)}
    folders = {job.row: job.model_folder for job in distilled if job.row in once.values()}
    models = {row: students[row] for row in folders}
    if teacher is not None:
        models, folders = {TEACHER: teacher.model, **models}, {TEACHER: teacher.folder, **folders}
    speeds = measure_speed(models, folders)
    return speeds | {job.row: speeds[once[job.student.name]] for job in distilled}
