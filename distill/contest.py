"""Which recipes make a student, whether they can, and which of several is better."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from transformers import AutoConfig, PretrainedConfig

from distill.config import DistilOptions, RunConfig
from distill.evaluate import difference
from distill.fit import check_recipe
from distill.job import Job
from distill.recipes import recipe_for
from distill.stages import Stage, equalised, scaled
from reports.record import Interval
from reports.words import metric_style
from students.presets import student_preset
from teacher.prepare import Prepared
from teacher.sources import resolve

Recipes = dict[str, tuple[Stage, ...]]
"""Name to stages."""


def chosen_recipes(options: DistilOptions, student: str) -> Recipes:
    """The recipes asked for, as long as `options.budget` makes them."""
    return {
        name: tuple(
            dataclasses.replace(stage, relation_heads=options.relation_heads) if "relations" in stage.losses else stage
            for stage in scaled(recipe_for(name, student), options.budget)
        )
        for name in options.recipes
    }


def on_equal_steps(recipes: Recipes, examples: int) -> Recipes:
    """Several recipes with as many steps in all as the first; one alone as it is."""
    if len(recipes) == 1:
        return recipes
    return dict(zip(recipes, equalised(list(recipes.values()), examples), strict=True))


def check_recipes(config: RunConfig, teacher: PretrainedConfig) -> tuple[str, ...]:
    """What a reader should know of the recipes asked for, with such a teacher.

    Raises:
        UserError: what cannot be done, with the way out.
    """
    notes: dict[str, None] = {}
    for name in config.students:
        student = student_preset(name, teacher)
        for recipe, stages in chosen_recipes(config.distilling, name).items():
            notes |= dict.fromkeys(check_recipe(recipe, stages, student, teacher))
    return tuple(notes)


def known_shape(source: str) -> PretrainedConfig | None:
    """A teacher's configuration where it lies in a folder; a hub's is read once it is loaded."""
    where = resolve(source)
    if not Path(where).is_dir():
        return None
    try:
        return AutoConfig.from_pretrained(where)
    except (OSError, ValueError):
        return None  # said with its reason when the teacher is loaded


def answers(seeds: Sequence[Job], prepared: Prepared) -> dict[int, np.ndarray]:
    """Seed to a model's predictions on the evaluation split."""
    return {job.seed: prepared.task.decode(np.load(job.answers)) for job in seeds}


def recipe_notes(rows: Sequence[Sequence[Job]], prepared: Prepared) -> list[str]:
    """One sentence for every further recipe of a student: its difference to the student's first.

    `rows` has the seeds of every model, in order.
    """
    notes = []
    references = prepared.splits["evaluate"].labels
    firsts: dict[str, Sequence[Job]] = {}
    for seeds in rows:
        if seeds[0].twin:
            continue
        first = firsts.setdefault(seeds[0].student.name, seeds)
        if first is not seeds:
            own, other = (list(answers(jobs, prepared).values()) for jobs in (seeds, first))
            words = _in_words(difference(prepared.task, own, other, references), prepared.task.data.metric)
            notes.append(f"{seeds[0].row} against {first[0].row}, on as many steps: {words}.")
    return notes


def _in_words(interval: Interval, metric: str) -> str:
    style = metric_style(metric)
    unit = " points of" if style.percent else " in"
    level = f"{interval.level * 100:g} % interval {style.interval(interval)}"
    seen = ", which includes zero: no difference is seen" if interval.low <= 0 <= interval.high else ""
    return f"{style.signed(interval.difference)}{unit} {style.label} ({level}{seen})"
