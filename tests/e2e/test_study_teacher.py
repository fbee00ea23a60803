"""A study of fine-tuning a teacher, from a file of texts to a page, a comparison in full and a teacher's folder."""

from pathlib import Path

import pytest

from common.artifact import load
from common.command import run_command
from common.pooled import pooling_of
from common.study_record import StudyRecord
from distill.study import main
from distill.study_config import StudyConfig


def _study(*arguments: object) -> int:
    return run_command(main, StudyConfig, arguments=[str(argument) for argument in arguments])


@pytest.fixture
def options(tmp_path: Path, reviews: Path, encoder: Path) -> list[object]:
    places = ["--task", reviews, "--teacher", encoder, "--runs", tmp_path / "runs", "--reports", tmp_path / "reports"]
    return ["--target", "teacher", *places, "--precision", "fp32", "--name", "s", "--workers", "1"]


def test_from_data_to_a_page_a_comparison_and_a_teacher(
    tmp_path: Path, options: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [*options, "--fix", "pooling=mean,epochs=2", "--range", "learning_rate=0.0005..0.005", "--trials", "3"]
    # No trial begins after the time is up, and none is lost.
    assert _study(*asked, "--timeout", "0.00001") == 0
    assert [row.state for row in _record(tmp_path).trials] == ["waiting"] * 3
    assert "No finished trial" in _page(tmp_path)

    assert _study(*asked, "--confirm", "1", "--seeds", "2", "--apply", "best") == 0
    record = _record(tmp_path)
    assert record.target == record.student == "teacher" and record.teacher_score is None
    assert record.shares == (1 / 3, 2 / 3, 1.0)
    complete = [row for row in record.trials if row.score is not None]
    assert complete and {row.state for row in record.trials} <= {"complete", "pruned"}
    for row in record.trials:
        assert row.settings["pooling"] == "mean" and 0.0005 <= row.settings["learning_rate"] <= 0.005
        if row.state == "pruned":
            assert len(row.rungs) < 3 and row.reason == f"given up at look {len(row.rungs)} of 3"
        else:
            assert len(row.rungs) == 3 and row.score == max(row.rungs)
        assert not list((tmp_path / "runs" / "s" / "trials" / str(row.number)).rglob("*.safetensors"))
    chosen = max(complete, key=lambda row: row.score or 0.0)
    assert next(row for row in complete if row.number == record.chosen).score == chosen.score
    assert [row.name for row in record.finals] == ["preset", f"trial {record.chosen}"]
    assert all(set(row.by_seed) == {"1", "2"} for row in record.finals)
    assert "fine-tuning encoder" in _page(tmp_path) and ">MB<" not in _page(tmp_path).split("Every trial")[1]

    model, _ = load(tmp_path / "runs" / f"s-trial-{record.chosen}" / "model")
    assert pooling_of(model.config) == "mean"
    capsys.readouterr()
    assert _study(*options, "--fix", "pooling=max,epochs=2", "--trials", "3") == 2
    assert "was begun with other settings (space: learning_rate" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--objective", "accuracy,latency"], "leave --objective accuracy,latency out"),
        (["--max-latency-ms", "5"], "--max-latency-ms is for students"),
        (["--student", "distil"], "--student distil is for students"),
        (["--fix", "hidden=64"], "name in --fix"),
        (["--fix", "freeze=3"], r"expected of none | 0 | 1 | 2"),
        (["--fix", "dropout=1"], "--teacher-dropout 1.0: expected 0 to below 1"),
    ],
)
def test_options_of_students_and_impossible_ones_are_refused(
    options: list[object], more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _study(*options, *more, "--trials", "1") == 2
    assert message in capsys.readouterr().err


def _record(tmp_path: Path) -> StudyRecord:
    return StudyRecord.load(tmp_path / "runs" / "s" / "study.json")


def _page(tmp_path: Path) -> str:
    return (tmp_path / "reports" / "s.html").read_text(encoding="utf-8")
