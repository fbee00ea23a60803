"""A study of students: its space, checked, and the teacher with its answers, made once for all trials."""

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path

from common.errors import UserError
from common.progress import say
from distill.contest import check_recipes, planned_students
from distill.job import Shared
from distill.precompute import insides
from distill.recipes import recipe_for
from distill.run import make_teacher, shared_by_all
from distill.study_config import StudyConfig
from distill.study_costs import yardstick
from distill.study_narrowing import narrowed
from distill.study_shipping import check_pruned, check_shipping
from distill.study_space import Space, Value, for_texts, samples, student_space
from distill.study_trial import Bench, run_config
from distill.transfer import TransferInputs
from students.vocabulary import trim_vocabulary
from teacher.data import TaskData
from teacher.loop_config import resolve_precision
from teacher.ready import Teacher
from teacher.scratch import expected_config
from teacher.tasks import TASKS


def searched_students(config: StudyConfig, data: TaskData) -> Space:
    """The space, narrowed as the user wants; its ends and every choice are checked to be possible."""
    options, teacher = config.searching, expected_config(config.teacher, data, config.scratch)
    whole = student_space(config.student, teacher, kind=data.kind, recipe=config.recipe, start=config.start)
    space = narrowed(whole, options.fix, options.range, options.space)
    for settings in samples(space):
        try:
            check_recipes(run_config(_weighing(config, space, settings), settings), data.kind, teacher)
        except UserError as error:
            raise UserError(as_parts(str(error), space)) from error
    check_shipping(space)
    check_pruned(
        space,
        lambda settings: planned_students(run_config(config, settings), teacher)[config.student],
        teacher,
        TASKS[data.kind].head_kind,
    )
    return space


def as_parts(message: str, space: Iterable[str]) -> str:
    """The message with parts of the space where it names options of distill.run, which a study does not have.

    >>> as_parts("--layers 9: choose --layers 1 to 4, or --start random", ["layers"])
    'layers=9: choose layers=1 to 4, or --start random'
    """
    for name in space:
        message = message.replace(f"--{name.replace('_', '-')} ", f"{name}=")
    return message


def _weighing(config: StudyConfig, space: Space, settings: Mapping[str, Value]) -> StudyConfig:
    """The options by which these settings are checked: weights of classes are of no use in a trial without the loss on
    labels, which is refused only where all trials are such.
    """
    part = space.get("weight_hard")
    some = part is not None and any(part.choices)
    return dataclasses.replace(config, class_weights="none") if some and not settings["weight_hard"] else config


def prepared_students(config: StudyConfig, data: TaskData, space: Space, folder: Path) -> Bench:
    """The teacher, its answers and its insides, made once for all trials."""
    base = run_config(config, {})
    teacher, pretrained = make_teacher(base, data, None)
    nothing = TransferInputs(unlabeled=[], masked=None, vectors=None, outputs=None)
    shared = shared_by_all(base, data, teacher, pretrained, nothing, {}, folder)
    precision = resolve_precision(config.precision)
    score = teacher.prepared.score(teacher.model, "select", precision)
    say(f"teacher: {data.metric} {teacher.prepared.task.signed(score):.4f} on the selection split")
    space = for_texts(space, recipe_for(config.recipe, config.student), teacher.prepared.splits["train"].lengths)
    bench = Bench(config=config, folder=folder, space=space, shared=shared, teacher_score=score)
    if "on" in space["trim"].choices:
        # What vocabulary cannot be trimmed is refused here and not in the first trial.
        trim_vocabulary(teacher.model, teacher.prepared.tokenizer, ["a"])
    # Before the trials, which slow what is measured beside them.
    yardstick(bench)
    return dataclasses.replace(bench, shared=_with_insides(bench, teacher, shared, precision))


def _with_insides(bench: Bench, teacher: Teacher, shared: Shared, precision: str) -> Shared:
    """With what students of any depth in the space look at in the teacher."""
    layers = bench.space["layers"]
    maps = bench.space["layer_map"].choices if "layer_map" in bench.space else (None,)
    jobs = [
        job
        for depth in range(int(layers.low), int(layers.high) + 1)
        for name in maps
        for job in bench.jobs(
            {"layers": depth} if name is None else {"layers": depth, "layer_map": name},
            bench.folder / "none" / f"{depth}-{name}",
        )
    ]
    gigabytes = run_config(bench.config, {}).distilling.cache_gb
    kept = insides(teacher, jobs, bench.folder, gigabytes=gigabytes, bf16=precision == "bf16")
    return dataclasses.replace(shared, insides=kept)
