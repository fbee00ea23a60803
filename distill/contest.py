"""Which recipes make a student, whether they can, and which of several is better."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from transformers import PretrainedConfig

from common.errors import UserError
from distill.ablation import ablations
from distill.changes import changed
from distill.config import RunConfig
from distill.fit import check_recipe, refuse_layers
from distill.job import Job
from distill.recipes import recipe_for
from distill.shapes import fitting, planned_student, segment_notes
from distill.stages import Stage, equalised, scaled
from distill.substitutes import answerable
from distill.transfer_stages import on_sets
from distill.two_tokenizers import as_read, refuse_choices, refuse_pieces
from reports.record import Interval
from reports.words import duration, metric_style
from students.presets import StudentConfig
from teacher.class_weights import check_class_weights
from teacher.difference import difference
from teacher.prepare import Prepared
from teacher.tasks import TASKS

Recipes = dict[str, tuple[Stage, ...]]
"""Name to stages."""

IN_COMMON = {"steps": "on as many steps", "time": "in as much training time"}
"""--equal to words."""


def chosen_recipes(
    config: RunConfig, kind: str, name: str, student: StudentConfig, teacher: PretrainedConfig, *, two: bool = False
) -> Recipes:
    """The recipes asked for the student called `name`, as long as the budget makes them, on the sets there are.

    `kind`: of the task. `two`: student and teacher have tokenizers of their own.

    Raises:
        UserError: stages that compare layers of a teacher without, labels of examples without, or pieces that two
        tokenizers cut differently; a change that applies to none of a recipe's stages.
    """
    options, outputs = config.distilling, config.transfer.teacher_outputs is not None
    recipes: Recipes = {}
    for recipe in options.recipes:
        stages = fitting(scaled(recipe_for(recipe, name, outputs=outputs), options.budget), student, teacher)
        try:
            stages = changed(stages, config.changes)
        except UserError as error:
            raise UserError(f"recipe {recipe}, student {name}: {error}") from None
        if outputs:
            refuse_layers(recipe, name, stages)
        stages = on_sets(name, stages, config.transfer, kind)
        if two:
            refuse_pieces(recipe, name, stages, at_pieces=TASKS[kind].per_position and not TASKS[kind].carries)
            refuse_choices(recipe, name, stages, kind)
        stages = answerable(stages, student.layers, teacher, longest_text(config))
        recipes[recipe] = tuple(
            dataclasses.replace(stage, relation_heads=options.relation_heads) if "relations" in stage.losses else stage
            for stage in stages
        )
    return ablations(recipes[options.recipes[0]]) if options.ablate else recipes


def longest_text(config: RunConfig) -> int:
    """Pieces of the longest text that a student and its teacher look at together."""
    return max(config.data.max_length, config.distilling.text_length)


def on_equal_steps(recipes: Recipes, sizes: Mapping[str, int]) -> Recipes:
    """Several recipes with as many steps in all as the first, on sets of these sizes; one alone as it is."""
    if len(recipes) == 1:
        return recipes
    return dict(zip(recipes, equalised(list(recipes.values()), sizes), strict=True))


def planned_students(config: RunConfig, teacher: PretrainedConfig) -> dict[str, StudentConfig]:
    """Every student in the shape that its teacher gives it, or that it has in the folder it starts from."""
    start, folder = config.distilling.start, config.distilling.student_from
    return {name: planned_student(name, teacher, config.shape, start=start, folder=folder) for name in config.students}


def check_recipes(
    config: RunConfig, kind: str, teacher: PretrainedConfig, *, paired: bool = False, two: bool = False
) -> tuple[str, ...]:
    """What a reader should know of the students and recipes asked for, with such a teacher on a task of this kind.

    `paired`: its texts come in pairs. `two`: student and teacher have tokenizers of their own.

    Raises:
        UserError: what cannot be done, with the way out.
    """
    students = planned_students(config, teacher)
    _refuse_projection(config, students, teacher)
    notes = dict.fromkeys(segment_notes(students.values(), teacher, paired=paired))
    found: list[Stage] = []
    for name, student in students.items():
        for recipe, stages in chosen_recipes(config, kind, name, student, teacher, two=two).items():
            notes |= dict.fromkeys(check_recipe(recipe, stages, student, teacher))
            found += stages
    _refuse_useless(config, kind, found)
    return (*notes, *_weighing(config, kind, found))


def _refuse_projection(config: RunConfig, students: Mapping[str, StudentConfig], teacher: PretrainedConfig) -> None:
    """Raise UserError for maps to the teacher's width where all students have it."""
    wanted = config.changes.projection
    if wanted is not None and all(student.hidden == teacher.hidden_size for student in students.values()):
        raise UserError(
            f"--projection {wanted}: {' and '.join(students)} as wide as the teacher, so that nothing is projected: "
            "leave it out, or choose a narrower student"
        )


def _weighing(config: RunConfig, kind: str, stages: Sequence[Stage]) -> tuple[str, ...]:
    """What a reader should know of weights of classes; raises UserError where there are none to weigh."""
    check_class_weights(config.changes.class_weights, TASKS[kind], option="--class-weights")
    if config.changes.class_weights == "none":
        return ()
    if any("hard" in stage.losses for stage in stages):
        whose = "Students" + (" and their twins" if config.distilling.twins else "")
    elif config.distilling.twins:
        whose = "Twins alone, since no stage of a student has the loss on labels (hard),"
    else:
        raise UserError(
            f"--class-weights {config.changes.class_weights}: no stage learns from labels (hard): leave it out, or "
            "choose a --recipe that does"
        )
    return (f"{whose} learn from labels with all classes counting the same, however rare they are.",)


def _refuse_useless(config: RunConfig, kind: str, stages: Sequence[Stage]) -> None:
    """Refuse options that none of the stages, of all students and recipes, would heed on a task of this kind.

    Raises:
        UserError: the first of them.
    """
    losses = {name for stage in stages for name in stage.losses}
    warm = {
        "--temperature": config.changes.temperature,
        "--teacher-temperatures": config.committee.teacher_temperatures,
    }
    for flag, value in warm.items():
        if value is not None and TASKS[kind].soft_form == "values":
            raise UserError(f"{flag} {value}: the outputs of a {kind} are learned as they are: leave it out")
    _refuse_unread(config, stages)
    if config.distilling.relation_heads is not None and "relations" not in losses:
        raise UserError("--relation-heads is for losses on relations: give --recipe minilmv2 too, or leave it out")
    if config.committee.others and "soft" not in losses:
        raise UserError("--more-teachers: no stage learns a teacher's answers (soft): leave it out, or weigh soft")


def _refuse_unread(config: RunConfig, stages: Sequence[Stage]) -> None:
    """Refuse texts that no stage reads.

    Raises:
        UserError: the first of them.
    """
    options, transfer = config.distilling, config.transfer
    read = {name for stage in stages for name in stage.sets}
    given = {"augmented": f"--augment {transfer.augment}", "unlabeled": f"--unlabeled {transfer.unlabeled}"}
    for name in transfer.sets:
        if name not in ("labeled", *read):
            raise UserError(
                f"{given[name]}: no stage of these students draws from such texts (numbers are learned on the original "
                "ones): leave it out, or choose a student or --recipe with a stage on hidden states"
            )
    if any(stage.data == "text" for stage in stages):
        return
    if options.text != "auto" and config.teacher not in ("auto", "scratch"):
        raise UserError(f"--text {options.text}: no stage of these students reads general text: leave it out")
    if options.text_length != type(options).text_length:
        raise UserError(
            f"--text-length {options.text_length}: no stage of these students reads general text: leave it out"
        )


def answers(seeds: Sequence[Job], prepared: Prepared) -> dict[int, np.ndarray]:
    """Seed to a model's predictions on the evaluation split, of which all seeds have read the same pieces."""
    encoded = as_read(seeds[0].model_folder, prepared, "evaluate")
    return {job.seed: prepared.task.decode(np.load(job.answers), encoded) for job in seeds}


def recipe_notes(rows: Sequence[Sequence[Job]], prepared: Prepared, *, equal: str | None) -> list[str]:
    """One sentence for every further recipe of a student: its difference to the student's first.

    `rows` has the seeds of every model, in order; `equal`: a key of IN_COMMON, what they have in common. What they have
    not is said too: texts, since batches differ, and seconds, of which no more than the steps' were planned.
    """
    steps = "" if equal is None else f", {IN_COMMON[equal]}"
    notes = []
    references = prepared.splits["evaluate"].references
    firsts: dict[str, Sequence[Job]] = {}
    for seeds in rows:
        if seeds[0].twin:
            continue
        first = firsts.setdefault(seeds[0].student.name, seeds)
        if first is not seeds:
            own, other = (list(answers(jobs, prepared).values()) for jobs in (seeds, first))
            interval = difference(prepared.task, own, other, references)
            words = _in_words(interval, prepared.task.data.metric, alone=min(len(own), len(other)) < 2)
            spent = "" if equal is None else f" {_spent(seeds, first, equal)}"
            notes.append(f"{seeds[0].row} against {first[0].row}{steps}: {words}.{spent}")
    return notes


def _spent(seeds: Sequence[Job], first: Sequence[Job], equal: str) -> str:
    texts, others = (
        sum(outcome["steps"] * stage.batch_size for stage, outcome in zip(job.stages, job.outcomes(), strict=True))
        for job in (seeds[0], first[0])
    )
    read = f"read about {texts:,} and {others:,} texts a seed"
    if equal != "time":
        return f"They {read}."
    took, other = (
        duration(np.mean([sum(outcome["seconds"] for outcome in job.outcomes()) for job in jobs]))
        for jobs in (seeds, first)
    )
    return f"They trained for {took} and {other} a seed, evaluations included, and {read}."


def _in_words(interval: Interval, metric: str, *, alone: bool) -> str:
    style = metric_style(metric)
    unit = " points of" if style.percent else " in"
    level = f"{interval.level * 100:g} % interval {style.interval(interval)}"
    seen = ", which includes zero: no difference is seen" if interval.low <= 0 <= interval.high else ""
    seed = ", with this one seed" if alone else ""
    return f"{style.signed(interval.difference)}{unit} {style.label}{seed} ({level}{seen})"
