"""The main command: a task and a teacher to compared students, with a report. Reads top to bottom as the recipe."""

import time
from pathlib import Path

import numpy as np

from common.command import run_command
from common.files import new_folder
from common.progress import say
from distill.comparison import compared
from distill.config import RunConfig
from distill.evaluate import majority
from distill.job import Job, Shared
from distill.runs import open_run
from distill.stages import RECIPES, scaled, twin_recipe
from distill.summary import closing_table
from distill.workers import run_jobs
from reports.build import build_reports
from students.presets import student_preset, with_start
from teacher.data import TaskData, describe
from teacher.finetune import Teacher, ready_teacher, teacher_key
from teacher.loop import resolve_precision
from teacher.prepare import predict_logits
from teacher.pretrain import pretrain
from teacher.pretrain_config import PretrainConfig
from teacher.sources import minilm_folder
from teacher.tasks import task_for

EXAMPLES = """
  python -m distill.run --student tiny
  python -m distill.run --student tiny,distil,albert --seeds 3
  python -m distill.run --student distil --task reviews.csv --teacher bert-base-uncased
  python -m distill.run --student tiny --task sst2 --data-dir GLUE --teacher minilm
"""


def main(config: RunConfig) -> None:
    """The recipe: data, teacher, students, comparison, report."""
    started = time.monotonic()
    resolve_precision(config.precision)
    data = config.data.load()
    run = open_run(config, data.name)
    say(f"run: {run}")
    for line in describe(data):
        say(line)
    teacher, pretrained = make_teacher(config, data)
    check_teacher(teacher)
    shared = Shared(
        data=data,
        teacher=str(teacher.folder),
        teacher_logits=teacher_logits(teacher, run),
        pretrained=pretrained,
        text=general_text(config, data),
        text_length=config.distilling.text_length,
        max_length=config.data.max_length,
        precision=config.precision,
        checkpoint_every=config.checkpoint_every,
    )
    jobs = plan(config, teacher, run)
    run_jobs(jobs, shared, config.distilling.workers)
    record = compared(config, run, teacher, jobs, seconds=time.monotonic() - started)
    record.save(run / "record.json")
    build_reports(config.runs, config.reports, only=run.name if (config.reports / "index.html").exists() else None)
    say(closing_table(record))
    say(f"report: {config.reports / f'{run.name}.html'}")


def make_teacher(config: RunConfig, data: TaskData) -> tuple[Teacher, str | None]:
    """The teacher for the task, and where its weights before fine-tuning are (None if it came fine-tuned)."""
    source = config.teacher
    if source == "auto":
        source = "minilm" if minilm_folder() is not None else "scratch"
        say(f"teacher: {source}" + (" (the extra minilm is not installed)" if source == "scratch" else ""))
    if source == "scratch":
        source = str(scratch_encoder(config))
    task = task_for(data)
    key = teacher_key(source, task, config.finetuning, config.data.max_length, config.precision)
    folder = config.runs / "teachers" / f"{data.name}-{Path(source).name}-{key}"
    teacher = ready_teacher(
        source,
        task,
        config.finetuning,
        folder,
        max_length=config.data.max_length,
        precision=config.precision,
        checkpoint_every=config.checkpoint_every,
    )
    return teacher, source if teacher.outcome is not None else None


def scratch_encoder(config: RunConfig) -> Path:
    """A `mini` BERT pretrained here on general text; done once, and gone on with after an interruption."""
    text = config.distilling.text
    pretraining = PretrainConfig(
        corpus="pydocs" if text in ("auto", "task") else text,
        size="mini",
        precision=config.precision,
        checkpoint_every=config.checkpoint_every,
        resume=True,
    )
    name = f"mini-{Path(pretraining.corpus).stem}-{pretraining.steps or pretraining.budget}"
    return pretrain(pretraining, config.runs / "teachers" / name)


def check_teacher(teacher: Teacher) -> None:
    """Say how good the teacher is before anything is learned from it; warn where a constant answer is as good."""
    prepared = teacher.prepared
    value = prepared.score(teacher.model, "select", "fp32")
    constant = majority(prepared.task, prepared.splits["select"].labels)
    metric = prepared.task.data.metric
    say(f"teacher: {metric} {value:.4f} on the selection split (a constant answer: {constant:.4f})")
    if value <= constant:
        say("warning: this teacher is no better than always giving the same answer: students can learn nothing from it")


def teacher_logits(teacher: Teacher, run: Path) -> Path:
    """The teacher's logits on the training split, computed once a run and kept beside it."""
    path = run / "teacher" / "train.npy"
    if not path.is_file():
        with new_folder(path.parent) as target:
            np.save(target / path.name, predict_logits(teacher.model, teacher.prepared, "train"))
    return path


def general_text(config: RunConfig, data: TaskData) -> str:
    """Where general text comes from."""
    if config.distilling.text != "auto":
        return config.distilling.text
    return "pydocs" if data.name.startswith("pydocs") else "task"


def plan(config: RunConfig, teacher: Teacher, run: Path) -> list[Job]:
    """Every student, its twin without distillation, every seed."""
    jobs = []
    for name in config.students:
        student = with_start(student_preset(name, teacher.model.config), config.distilling.start)
        stages = scaled(RECIPES[name](), config.distilling.budget)
        kinds = [(name, stages, False)]
        if config.distilling.twins:
            kinds.append((f"{name} without distillation", twin_recipe(stages), True))
        jobs += [
            Job(
                name=f"{label}, seed {seed}",
                student=student,
                stages=recipe,
                seed=seed,
                twin=twin,
                folder=run / (f"{name}-twin" if twin else name) / f"seed-{seed}",
            )
            for seed in range(config.distilling.seeds)
            for label, recipe, twin in kinds
        ]
    return jobs


if __name__ == "__main__":
    raise SystemExit(run_command(main, RunConfig, examples=EXAMPLES))
