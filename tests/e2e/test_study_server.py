"""A study whose trials lie in PostgreSQL: two workers on it, and going on with it."""

import os
from pathlib import Path

import optuna

from common.command import run_command
from common.study_record import StudyRecord
from distill.study import main
from distill.study_config import StudyConfig
from distill.study_storage import open_storage, slots, waiting


def test_two_workers_share_the_trials_of_a_study_that_is_then_made_longer(
    postgres: str, tmp_path: Path, reviews: Path, fine_tuned: Path, forked_workers: None
) -> None:
    places = ["--task", reviews, "--runs", tmp_path / "runs", "--reports", tmp_path / "reports", "--name", "s"]
    settings = ["--precision", "fp32", "--fix", "budget=0.05", "--rungs", "1", "--latency-length", "16"]
    asked = [*places, *settings, "--teacher", fine_tuned, "--storage", postgres]

    def record(*options: object) -> StudyRecord:
        assert run_command(main, StudyConfig, arguments=[str(option) for option in (*asked, *options)]) == 0
        return StudyRecord.load(tmp_path / "runs" / "s" / "study.json")

    first = record("--trials", "4", "--workers", "2")
    assert [row.state for row in first.trials] == ["complete"] * 4
    study = optuna.load_study(study_name="s", storage=open_storage(postgres, tmp_path))
    assert str(os.getpid()) not in {trial.user_attrs["owner"].split(":")[1] for trial in slots(study)}
    assert len(slots(study)) == 4 and waiting(study) == 0
    longer = record("--trials", "5", "--workers", "1")
    assert [(row.score, row.seconds) for row in longer.trials[:4]] == [(row.score, row.seconds) for row in first.trials]
    assert [row.state for row in longer.trials[4:]] == ["complete"] and longer.retried == 0
    assert not list((tmp_path / "runs").rglob("*.db"))
