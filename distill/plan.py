"""What a run trains: every student by every recipe, its twin, every seed."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from distill.config import RunConfig
from distill.contest import chosen_recipes, on_equal_steps, planned_students
from distill.job import Job
from distill.recipes import twin_recipe
from distill.shapes import check_positions
from distill.stages import filled, steps_of
from distill.two_tokenizers import Reader
from students.presets import StudentConfig
from teacher.prepare import Prepared, prepare_split
from teacher.ready import Teacher


def students_for(config: RunConfig, teacher: Teacher) -> dict[str, StudentConfig]:
    """The students of a run; raises UserError for a folder to start from that cannot read the teacher's texts."""
    if config.distilling.student_from is not None:
        check_positions(config.distilling.student_from, teacher.prepared.max_length)
    return planned_students(config, teacher.model.config)


def lengths_by(reader: Reader | None, prepared: Prepared) -> np.ndarray | None:
    """(n,) pieces of the training rows by the tokenizer that students have and their teacher has not, if they have."""
    if reader is None:
        return None
    return prepare_split(prepared.task, reader.tokenizer, "train", prepared.max_length).lengths


def plan(
    config: RunConfig,
    teacher: Teacher,
    students: Mapping[str, StudentConfig],
    sizes: Mapping[str, int],
    run: Path,
    *,
    lengths: np.ndarray | None = None,
) -> list[Job]:
    """Every student by every recipe, its twin without distillation, every seed.

    `sizes`: set to its examples. `lengths`: of the training rows, in pieces of a tokenizer that the students have and
    the teacher has not, by which their batches are filled; None: they have the teacher's.
    """
    jobs: list[Job] = []
    two, kind = lengths is not None, teacher.prepared.task.kind
    lengths = teacher.prepared.splits["train"].lengths if lengths is None else lengths
    for name, student in students.items():
        chosen = {
            recipe: tuple(filled(stage, lengths) for stage in stages)
            for recipe, stages in chosen_recipes(config, kind, name, student, teacher.model.config, two=two).items()
        }
        several, equal = len(chosen) > 1, len(chosen) > 1 and not config.distilling.ablate
        recipes = on_equal_steps(chosen, sizes) if equal else chosen
        kinds = [
            (recipe if several else None, f"{name}-{recipe.replace(' ', '-')}" if several else name, stages, False)
            for recipe, stages in recipes.items()
        ]
        if config.distilling.twins:
            first = next(iter(recipes.values()))
            twin = twin_recipe(first, sizes, steps=steps_of(first, sizes) if equal else None)
            kinds.append((None, f"{name}-twin", twin, True))
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
