"""Recipes in equal time."""

import dataclasses
import json
from pathlib import Path
from unittest import mock

from transformers import BertConfig

from distill.job import Job
from distill.pace import PACES, on_equal_time
from distill.recipes import RECIPES, twin_recipe
from distill.stages import equalised, steps_of
from students.presets import student_preset


def _jobs(folder: Path, *recipes: str) -> list[Job]:
    student = student_preset("tiny", BertConfig())
    stages = equalised([RECIPES[name]() for name in recipes], {"labeled": 3200})
    return [
        Job(student=student, stages=own, seed=seed, twin=False, recipe=name, folder=folder / name / str(seed))
        for seed in range(2)
        for name, own in zip(recipes, stages, strict=True)
    ]


def test_a_slower_recipe_gets_fewer_steps_and_ends_at_the_same_time(tmp_path: Path) -> None:
    jobs = _jobs(tmp_path, "distilbert", "minilmv2")
    paces = {"tiny (distilbert)": {"distil": 0.1}, "tiny (minilmv2)": {"relations": 0.4, "prediction": 0.1}}
    (tmp_path / PACES).write_text(json.dumps(paces))
    equal = on_equal_time(jobs, mock.Mock(), tmp_path, 1)
    assert [job.stages for job in equal[::2]] == [jobs[0].stages] * 2
    seconds = [sum(paces[job.row][stage.name] * (stage.steps or 0) for stage in job.stages) for job in equal]
    assert seconds[1] == seconds[3]
    # One rounding a stage.
    assert abs(seconds[1] - seconds[0]) <= (0.4 + 0.1) / 2
    before, after = ([stage.steps or 0 for stage in job.stages] for job in (jobs[1], equal[1]))
    assert sum(after) < sum(before)
    assert abs(after[0] / after[1] - before[0] / before[1]) < 0.02


def test_the_paces_that_a_run_found_first_hold_for_its_resumed_half(tmp_path: Path) -> None:
    jobs = _jobs(tmp_path, "distilbert", "pkd")
    found = iter((1.0, 2.0, 7.0, 7.0))
    with mock.patch("distill.pace._pace", side_effect=lambda job, *_: {job.stages[0].name: next(found)}) as timed:
        first = on_equal_time(jobs, mock.Mock(), tmp_path, 1)
        assert on_equal_time(jobs, mock.Mock(), tmp_path, 1) == first
    assert timed.call_count == 2
    assert [job.stages[0].steps for job in first] == [300, 150, 300, 150]


def test_a_twin_of_other_steps_is_not_said_to_have_as_many(tmp_path: Path) -> None:
    first, other = _jobs(tmp_path, "distilbert", "minilmv2")[:2]
    sizes = {"labeled": 3200}
    stages = twin_recipe(first.stages, sizes, steps=steps_of(first.stages, sizes))
    assert stages[0].description.endswith("for as many steps as each recipe.")
    twin = dataclasses.replace(first, recipe=None, twin=True, stages=stages)
    paces = {job.row: {stage.name: 0.1 for stage in job.stages} for job in (first, other)}
    (tmp_path / PACES).write_text(json.dumps(paces | {twin.row: {"labels": 0.05}}))
    *_, paced = on_equal_time([first, other, twin], mock.Mock(), tmp_path, 1)
    assert paced.stages[0].steps == 2 * (stages[0].steps or 0)
    assert paced.stages[0].description.endswith("for as long as each recipe.")
