"""What a run trains: every student by every recipe, its twin, every seed."""

from collections.abc import Mapping
from pathlib import Path

from distill.config import RunConfig
from distill.contest import chosen_recipes, on_equal_steps, planned_students
from distill.job import Job
from distill.mixture import shares_of_an_epoch
from distill.recipes import twin_recipe
from distill.shapes import check_positions
from distill.stages import Stage, filled, steps_of
from distill.transfer_sets import TransferSet, read_examples
from distill.two_tokenizers import Reader
from students.presets import StudentConfig
from teacher.batches import mean_padded
from teacher.prepare import prepare_split
from teacher.ready import Teacher

LOOKED_AT = 1000
"""Texts of a set that the length of all is taken from."""


def students_for(config: RunConfig, teacher: Teacher) -> dict[str, StudentConfig]:
    """The students of a run; raises UserError for a folder to start from that cannot read the teacher's texts."""
    if config.distilling.student_from is not None:
        check_positions(config.distilling.student_from, teacher.prepared.max_length)
    return planned_students(config, teacher.model.config)


def pieces_a_text(reader: Reader | None, teacher: Teacher, sets: Mapping[str, TransferSet]) -> dict[str, float]:
    """Set, the labelled rows among them, to the pieces of its texts, padded, on average.

    By the students' tokenizer: that of `reader`, or their teacher's. Of `sets` some texts stand for all.
    """
    prepared = teacher.prepared
    tokenizer = prepared.tokenizer if reader is None else reader.tokenizer
    labeled = prepared.splits["train"]
    if reader is not None:
        labeled = prepare_split(prepared.task, tokenizer, "train", prepared.max_length)
    found = {"labeled": mean_padded(labeled.lengths)}
    for name, entry in sets.items():
        texts = read_examples(entry.folder)[:: -(-entry.card.rows // LOOKED_AT)]
        found[name] = mean_padded(prepared.task.encode(texts, tokenizer, prepared.max_length).lengths)
    return found


def _drawn(stage: Stage, pieces: Mapping[str, float], sizes: Mapping[str, int]) -> float:
    """The pieces of a text that the stage draws, on average; general text counts as if it were the labelled rows."""
    sets = stage.sets or ("labeled",)
    shares = shares_of_an_epoch({name: sizes[name] for name in sets}, stage.mix)
    return sum(share * pieces[name] for name, share in zip(sets, shares, strict=True))


def plan(
    config: RunConfig,
    teacher: Teacher,
    students: Mapping[str, StudentConfig],
    sizes: Mapping[str, int],
    run: Path,
    *,
    pieces: Mapping[str, float],
    two: bool = False,
) -> list[Job]:
    """Every student by every recipe, its twin without distillation, every seed.

    `sizes`: set to its examples. `pieces`: as of `pieces_a_text`, by which batches are filled. `two`: students have a
    tokenizer of their own.
    """
    jobs: list[Job] = []
    kind = teacher.prepared.task.kind
    for name, student in students.items():
        chosen = {
            recipe: tuple(filled(stage, _drawn(stage, pieces, sizes)) for stage in stages)
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
