"""The main command: a task and a teacher to compared students, with a report. Reads top to bottom as the recipe."""

import time
from pathlib import Path

import numpy as np

from common.command import run_command
from common.errors import UserError
from common.files import new_folder, sole_use
from common.progress import say
from distill.comparison import compared
from distill.config import RunConfig
from distill.contest import check_recipes, chosen_recipes, on_equal_steps
from distill.evaluate import majority
from distill.job import Job, Shared
from distill.recipes import twin_recipe
from distill.runs import drop_if_unused, open_run
from distill.shapes import check_positions, planned_student
from distill.summary import closing_table
from distill.workers import run_jobs
from reports.build import build_reports, check_place
from students.general import check_same_pieces
from teacher.data import BUILT_IN, TaskData, describe
from teacher.finetune import Teacher, ready_teacher, teacher_key
from teacher.loop import resolve_precision
from teacher.prepare import predict_logits
from teacher.scratch import encoder_for, expected_config
from teacher.tasks import task_for

EXAMPLES = """
  python -m distill.run --student tiny
  python -m distill.run --student tiny,distil,albert --seeds 3
  python -m distill.run --student distil --task reviews.csv --teacher bert-base-uncased
  python -m distill.run --student distil --recipe fast,pkd,minilmv2
  python -m distill.run --student tiny --task sst2 --data-dir GLUE --teacher minilm
  python -m distill.run --student albert --sharing attention --task reviews.csv
  python -m distill.run --student tiny --layers 3 --hidden 192 --task reviews.csv
"""


def main(config: RunConfig) -> None:
    """The recipe: data, teacher, students, comparison, report."""
    started = time.monotonic()
    precision = resolve_precision(config.precision)
    check_place(config.reports)
    data = config.data.load()
    run = open_run(config, data.name)
    with sole_use(run):
        say(f"run: {run}")
        for line in describe(data):
            say(line)
        try:
            # What cannot be done is said before minutes go into a teacher.
            notes = check_recipes(config, expected_config(config.teacher))
            teacher, pretrained = make_teacher(config, data)
            jobs = plan(config, teacher, run)
        except UserError:
            drop_if_unused(run)
            raise
        for note in notes:
            say(f"note: {note}")
        notes += check_teacher(teacher, precision)
        run_jobs(jobs, shared_by_all(config, data, teacher, pretrained, run), config.distilling.workers)
        record = compared(config, run, teacher, jobs, notes=notes, started=started)
        record.save(run / "record.json")
    build_reports(config.runs, config.reports, only=run.name if (config.reports / "index.html").exists() else None)
    say(closing_table(record))
    say(f"report: {config.reports / f'{run.name}.html'}")


def shared_by_all(config: RunConfig, data: TaskData, teacher: Teacher, pretrained: str | None, run: Path) -> Shared:
    """What every student's training needs."""
    return Shared(
        data=data,
        teacher=str(teacher.folder),
        teacher_origin=teacher.origin,
        teacher_logits=teacher_logits(teacher, run, resolve_precision(config.precision)),
        pretrained=pretrained,
        text=general_text(config),
        text_length=config.distilling.text_length,
        max_length=config.data.max_length,
        precision=config.precision,
        checkpoint_every=config.checkpoint_every,
        gradient_norms=config.distilling.gradient_norms,
    )


def make_teacher(config: RunConfig, data: TaskData) -> tuple[Teacher, str | None]:
    """The teacher for the task, and where its weights before fine-tuning are (None if it came fine-tuned)."""
    teachers = config.runs / "teachers"
    text = config.distilling.text
    source = encoder_for(
        config.teacher,
        teachers,
        corpus="pydocs" if text in ("auto", "task") else text,
        precision=config.precision,
        checkpoint_every=config.checkpoint_every,
    )
    task = task_for(data)
    key = teacher_key(source, task, config.finetuning, config.data.max_length, config.precision)
    teacher = ready_teacher(
        source,
        task,
        config.finetuning,
        teachers / f"{data.name}-{Path(source).name}-{key}",
        max_length=config.data.max_length,
        precision=config.precision,
        checkpoint_every=config.checkpoint_every,
    )
    return teacher, source if teacher.outcome is not None else None


def check_teacher(teacher: Teacher, precision: str) -> tuple[str, ...]:
    """Say how good the teacher is before anything is learned from it; a warning where a constant answer is as good."""
    prepared = teacher.prepared
    metric = prepared.task.data.metric
    value = prepared.score(teacher.model, "select", precision)
    constant = majority(prepared.task, prepared.splits["select"].labels)
    say(f"teacher: {metric} {value:.4f} on the selection split (a constant answer: {constant:.4f})")
    if value > constant:
        return ()
    warning = "The teacher is no better than always giving the same answer: students can learn nothing from it."
    say(f"warning: {warning}")
    return (warning,)


def teacher_logits(teacher: Teacher, run: Path, precision: str) -> Path:
    """The teacher's logits on the training split, in the precision of training, once a run and kept beside it."""
    path = run / "teacher" / "train.npy"
    if not _whole(path, len(teacher.prepared.splits["train"])):
        with new_folder(path.parent) as target:
            logits = predict_logits(
                teacher.model, teacher.prepared, "train", precision=precision, label="teacher: answers"
            )
            np.save(target / path.name, logits)
    return path


def _whole(path: Path, rows: int) -> bool:
    """Whether a file of logits is there, readable, and has a row for every example."""
    try:
        return len(np.load(path)) == rows
    except (OSError, ValueError, EOFError):
        return False


def general_text(config: RunConfig) -> str:
    """Where general text comes from."""
    if config.distilling.text != "auto":
        return config.distilling.text
    return "pydocs" if config.data.task in BUILT_IN else "task"


def plan(config: RunConfig, teacher: Teacher, run: Path) -> list[Job]:
    """Every student by every recipe, its twin without distillation, every seed."""
    jobs: list[Job] = []
    examples = len(teacher.prepared.splits["train"])
    folder = config.distilling.student_from
    if folder is not None:
        check_same_pieces(folder, teacher.prepared.tokenizer)
        check_positions(folder, teacher.prepared.max_length)
    for name in config.students:
        student = planned_student(
            name, teacher.model.config, config.shape, start=config.distilling.start, folder=folder
        )
        chosen = chosen_recipes(config.distilling, name, student, teacher.model.config)
        recipes = on_equal_steps(chosen, examples)
        several = len(recipes) > 1
        kinds = [
            (recipe if several else None, f"{name}-{recipe}" if several else name, stages, False)
            for recipe, stages in recipes.items()
        ]
        if config.distilling.twins:
            first = next(iter(recipes.values()))
            steps = sum(stage.length(examples) for stage in first) if several else None
            kinds.append((None, f"{name}-twin", twin_recipe(first, steps=steps), True))
        jobs += [
            Job(
                student=student,
                recipe=recipe,
                stages=stages,
                seed=seed,
                twin=twin,
                folder=run / folder / f"seed-{seed}",
            )
            for seed in range(config.distilling.seeds)
            for recipe, folder, stages, twin in kinds
        ]
    return jobs


if __name__ == "__main__":
    raise SystemExit(run_command(main, RunConfig, examples=EXAMPLES))
