"""What a study's record says of its trials."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import optuna
import pytest

from common.errors import UserError
from distill.study_config import StudyConfig
from distill.study_objectives import SCORE
from distill.study_result import importances, study_record
from distill.study_storage import open_storage
from teacher.data import TaskData


def test_no_password_of_a_store_is_written_down_or_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = "postgresql+psycopg://ann:s3cret@host/db"
    monkeypatch.setattr(sys, "argv", ["/a/distill/study.py", "--storage", storage])
    splits = {"train": (), "select": (), "evaluate": ()}
    facts = {"name": "reviews", "kind": "classification", "labels": ("no", "yes"), "metric": "accuracy"}
    data = TaskData(**facts, splits=splits, origins={}, fingerprint="f", sources={})
    told = {"folder": tmp_path, "origin": "encoder", "teacher_score": 0.9, "latency_length": 16, "shares": (1.0,)}
    bench = SimpleNamespace(config=StudyConfig(storage=storage), data=data, space={}, **told)
    record = study_record(bench, optuna.create_study(), (), started=0.0)  # type: ignore[arg-type]
    assert record.provenance.config["storage"] == "postgresql+psycopg://ann:***@host/db"
    record.save(tmp_path / "study.json")
    assert "s3cret" not in (tmp_path / "study.json").read_text(encoding="utf-8")
    with pytest.raises(UserError, match=r"--storage nonsense://ann:\*\*\*@host/db: ") as found:
        open_storage("nonsense://ann:s3cret@host/db", tmp_path)
    assert "s3cret" not in str(found.value)


def test_what_decides_is_what_the_best_trials_have_in_common_and_not_the_worst() -> None:
    study = optuna.create_study(direction="maximize")
    places = np.random.default_rng(0).random((100, 2))
    for best, worst in places.tolist():
        # Good trials are good by the one part, bad ones are bad by the other.
        score = best if best > 0.8 else -worst if worst > 0.8 else 0.5
        parts = {"best": best, "worst": worst}
        uniform = optuna.distributions.FloatDistribution(0.0, 1.0)
        study.add_trial(
            optuna.create_trial(
                params=parts, distributions=dict.fromkeys(parts, uniform), value=score, user_attrs={SCORE: score}
            )
        )
    found = importances(study)
    assert found["best"] > 0.9
