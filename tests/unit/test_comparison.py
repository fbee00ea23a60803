"""What a run says of its models together."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from transformers import BertConfig

from common.bootstrap import Interval
from distill import contest
from distill.comparison import no_better_than_constant, setting_notes
from distill.job import Job
from distill.stages import Stage
from students.presets import student_preset


def _group(folder: Path, threshold: float, *, twin: bool, seeds: int) -> list[Job]:
    jobs = [
        Job(
            student=student_preset("tiny", BertConfig()),
            stages=(),
            seed=seed,
            twin=twin,
            folder=folder / f"{'twin' if twin else 'student'}-{seed}",
        )
        for seed in range(seeds)
    ]
    for job in jobs:
        job.model_folder.mkdir(parents=True)
        (job.model_folder / "config.json").write_text(json.dumps({"no_answer_threshold": threshold + job.seed}))
    return jobs


def _teacher(*settings: str) -> Any:
    model = SimpleNamespace(config=SimpleNamespace(no_answer_threshold=0.2))
    return SimpleNamespace(model=model, prepared=SimpleNamespace(task=SimpleNamespace(settings=settings)))


def test_a_twin_has_a_threshold_of_its_own(tmp_path: Path) -> None:
    groups = [_group(tmp_path, value, twin=twin, seeds=2) for value, twin in ((0.41, False), (-1.73, True))]
    (note,) = setting_notes(_teacher("no_answer_threshold"), groups)
    assert note == (
        "No answer threshold, found on the selection split; of the first seed: teacher 0.200, tiny 0.410, tiny without "
        "distillation -1.730."
    )
    (alone,) = setting_notes(_teacher("no_answer_threshold"), [group[:1] for group in groups])
    assert alone.startswith("No answer threshold, found on the selection split: teacher")
    assert setting_notes(_teacher(), groups) == []


@pytest.mark.parametrize(("higher", "poor", "good"), [(True, (0.7, 0.8), 0.81), (False, (0.9, 0.8), 0.79)])
def test_models_that_a_constant_answer_is_as_good_as_are_named(
    higher: bool, poor: tuple[float, float], good: float
) -> None:
    def cards(*values: float) -> list[Any]:
        return [SimpleNamespace(name=str(value), quality=SimpleNamespace(value=value)) for value in values]

    task: Any = SimpleNamespace(majority=0.8, higher_is_better=higher)
    (note,) = no_better_than_constant(task, cards(*poor, good))
    assert note == f"No better than always giving the same answer (0.8000): {poor[0]}, {poor[1]}."
    assert no_better_than_constant(task, cards(good)) == []
    assert no_better_than_constant(SimpleNamespace(majority=None, higher_is_better=True), cards(*poor)) == []


def _recipe(folder: Path, name: str, *, batch: int, seconds: float, seeds: int) -> list[Job]:
    """Two stages of 100 steps, trained."""
    stages = tuple(
        Stage(
            name=stage,
            description="",
            teacher="none",
            data="train",
            losses={"hard": 1.0},
            learning_rate=1e-4,
            batch_size=batch,
        )
        for stage in ("first", "second")
    )
    student = student_preset("tiny", BertConfig())
    jobs = [
        Job(student=student, recipe=name, stages=stages, seed=seed, twin=False, folder=folder / f"{name}-{seed}")
        for seed in range(seeds)
    ]
    for job in jobs:
        for stage in stages:
            (job.folder / stage.name).mkdir(parents=True)
            outcome = {"steps": 100, "seconds": seconds + job.seed}
            (job.folder / stage.name / "stage.json").write_text(json.dumps(outcome))
    return jobs


def test_what_compared_recipes_have_not_in_common_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal steps are no equal number of texts, and a time that was planned is not what was taken."""
    rows = [_recipe(tmp_path, name, batch=batch, seconds=30.0, seeds=2) for name, batch in (("fast", 70), ("pkd", 32))]
    interval = Interval(difference=0.02, low=0.01, high=0.03)
    monkeypatch.setattr(contest, "answers", lambda jobs, prepared: dict.fromkeys(job.seed for job in jobs))
    monkeypatch.setattr(contest, "difference", lambda *_: interval)
    (note,) = contest.recipe_notes(rows, MagicMock(task=MagicMock(**{"data.metric": "accuracy"})), equal="steps")
    assert note == (
        "tiny (pkd) against tiny (fast), on as many steps: +2.0 points of accuracy (95 % interval +1.0 to +3.0). They "
        "read about 6,400 and 14,000 texts a seed."
    )
    alone = [row[:1] for row in rows]
    (note,) = contest.recipe_notes(alone, MagicMock(task=MagicMock(**{"data.metric": "accuracy"})), equal="time")
    assert ", in as much training time: +2.0 points of accuracy, with this one seed (95 %" in note
    assert note.endswith(
        "They trained for 1 min 0 s and 1 min 0 s a seed, evaluations included, and read about "
        "6,400 and 14,000 texts a seed."
    )
    (note,) = contest.recipe_notes(rows, MagicMock(task=MagicMock(**{"data.metric": "accuracy"})), equal=None)
    assert note.endswith("+3.0).")
