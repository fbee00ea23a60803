"""Several recipes for one student, from the command to the report."""

import json
from pathlib import Path

import pytest
from e2e.conftest import quick

from common.command import run_command
from distill.config import RunConfig
from distill.run import main
from reports.cells import in_order
from reports.record import Record


def test_recipes_are_compared_on_equal_steps_in_one_report(tmp_path: Path, reviews: Path, encoder: Path) -> None:
    options = ["--recipe", "distilbert,pkd,minilmv2", "--student", "distil", "--gradient-norms", "--budget", "1"]
    options = quick(tmp_path, reviews, encoder, *options)
    assert run_command(main, RunConfig, arguments=options) == 0
    (path,) = (tmp_path / "runs").glob("*/record.json")
    assert path.parent.name == "reviews-distil-distilbert-pkd-minilmv2"
    record = Record.load(path)
    students = [f"distil ({recipe})" for recipe in ("distilbert", "pkd", "minilmv2")]
    names = [card.name for card in in_order(record)]
    assert names == ["teacher", *students, "distil without distillation", "TF-IDF + logistic regression"]
    steps = {card.name: sum(stage.steps for stage in card.stages) for card in record.models}
    assert {steps[name] for name in (*students, "distil without distillation")} == {18}
    for name in students[1:]:
        assert any(note.startswith(f"{name} against {students[0]}, on as many steps: ") for note in record.notes)
    card = record.model("distil (minilmv2)")
    assert (path.parent / "distil-minilmv2" / "seed-0" / "model" / "config.json").is_file()
    assert card.quality.against_twin is not None
    curves = {curve.name for curve in card.curves if curve.stage == "relations"}
    assert {"relations", "gradient norm relations"} <= curves
    assert "relations value" not in curves
    history = path.parent / "distil-minilmv2" / "seed-0" / "relations" / "history.jsonl"
    row = json.loads(history.read_text().splitlines()[0])
    assert row["relations"] == pytest.approx(sum(row[f"relations {part}"] for part in ("query", "key", "value")))
    page = (tmp_path / "reports" / f"{record.name}.html").read_text(encoding="utf-8")
    assert all(name in page for name in students)
    assert "on as many steps" in page


def test_recipes_are_compared_in_equal_time(tmp_path: Path, reviews: Path, encoder: Path) -> None:
    options = ["--recipe", "distilbert,pkd", "--student", "distil", "--equal", "time", "--no-twins", "--budget", "1"]
    assert run_command(main, RunConfig, arguments=quick(tmp_path, reviews, encoder, *options)) == 0
    record = Record.load(tmp_path / "runs" / "reviews-distil-distilbert-pkd" / "record.json")
    paces = json.loads((tmp_path / "runs" / record.name / "paces.json").read_text(encoding="utf-8"))
    first, second = (paces[f"distil ({name})"][stage] for name, stage in (("distilbert", "distil"), ("pkd", "patient")))
    steps = [record.model(f"distil ({name})").stages[0].steps for name in ("distilbert", "pkd")]
    assert steps == [18, max(1, round(18 * first / second))]
    (note,) = (note for note in record.notes if note.startswith("distil (pkd) against"))
    assert ", in as much training time: " in note


def test_an_ablation_is_one_report(tmp_path: Path, reviews: Path, encoder: Path) -> None:
    options = quick(tmp_path, reviews, encoder, "--student", "distil", "--ablate", "--no-twins")
    assert run_command(main, RunConfig, arguments=options) == 0
    record = Record.load(tmp_path / "runs" / "reviews-distil-ablation" / "record.json")
    variants = ["whole", "no soft", "no hard", "no cosine"]
    assert [card.name for card in in_order(record)][1:5] == [f"distil ({name})" for name in variants]
    losses = {card.name: set(card.stages[0].losses) for card in record.models if card.role == "student"}
    assert losses["distil (no cosine)"] == {"soft", "hard"}
    for name in variants[1:]:
        assert any(note.startswith(f"distil ({name}) against distil (whole): ") for note in record.notes)
    assert (tmp_path / "runs" / record.name / "distil-no-soft" / "seed-0" / "model" / "config.json").is_file()
