"""What a run says of its models together."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from transformers import BertConfig

from distill.comparison import setting_notes
from distill.job import Job
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
