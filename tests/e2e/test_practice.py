"""A teacher with mean pooling and other ways of fine-tuning, validated in folds, and a student made from it."""

import json
from pathlib import Path

import pytest
from e2e.conftest import quick

from common.artifact import load
from common.command import run_command
from common.pooled import pooling_of
from distill.config import RunConfig
from distill.run import main as distil
from reports.record import Record
from teacher.finetune import FinetuneConfig
from teacher.finetune import main as finetune


def test_from_folds_to_a_student_that_pools(tmp_path: Path, reviews: Path, encoder: Path) -> None:
    out = tmp_path / "pooled"
    places = ["--task", str(reviews), "--model", str(encoder), "--out", str(out), "--precision", "fp32"]
    training = ["--teacher-learning-rate", "2e-3", "--teacher-epochs", "16", "--teacher-layer-decay", "0.95"]
    pooled = ["--teacher-pooling", "mean", "--teacher-head-rate", "4e-3", "--teacher-class-weights", "balanced"]
    assert run_command(finetune, FinetuneConfig, arguments=[*places, *training, *pooled, "--folds", "3"]) == 0
    scores = json.loads((tmp_path / "pooled-folds" / "folds.json").read_text(encoding="utf-8"))
    assert sum(fold["n"] for fold in scores["folds"]) == 216  # a tenth of the rows is held out for good
    assert scores["mean"]["accuracy"] > 0.8
    assert pooling_of(load(out / "model")[0].config) == "mean"
    options = quick(tmp_path, reviews, out, "--student", "distil", "--no-twins")
    assert run_command(distil, RunConfig, arguments=options) == 0
    record = Record.load(tmp_path / "runs" / "reviews-distil" / "record.json")
    assert record.model("teacher").quality.value > 0.8
    student = tmp_path / "runs" / "reviews-distil" / "distil" / "seed-0" / "model"
    assert pooling_of(load(student)[0].config) == "mean"


def test_bad_folds_end_in_one_sentence(
    tmp_path: Path, reviews: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = ["--task", str(reviews), "--model", str(encoder), "--out", str(tmp_path / "out"), "--folds", "2"]
    assert run_command(finetune, FinetuneConfig, arguments=places) == 2
    assert "--folds 2: expected 3 to" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
