"""A study of what students ship as: scores, costs and the comparison in full are of the artifact itself."""

import json
from pathlib import Path

import pytest

from common.artifact import load
from common.command import run_command
from common.study_record import StudyRecord
from distill.study import main
from distill.study_config import StudyConfig
from reports.record import Record
from students.pruned_shape import shape_of


def _study(*arguments: object) -> int:
    return run_command(main, StudyConfig, arguments=[str(argument) for argument in arguments])


def _record(tmp_path: Path) -> StudyRecord:
    return StudyRecord.load(tmp_path / "runs" / "s" / "study.json")


@pytest.fixture
def options(tmp_path: Path, reviews: Path, encoder: Path) -> list[object]:
    places = ["--task", reviews, "--teacher", encoder, "--runs", tmp_path / "runs", "--reports", tmp_path / "reports"]
    training = ["--teacher-learning-rate", "2e-3", "--teacher-epochs", "1", "--precision", "fp32", "--name", "s"]
    return [*places, *training, "--workers", "1", "--rungs", "1", "--latency-length", "16", "--max-length", "32"]


def test_an_int8_student_is_scored_and_measured_as_it_ships(tmp_path: Path, options: list[object]) -> None:
    chain = ["--fix", "runtime=int8,trim=on,prune=0.3,layers=2,budget=0.05", "--max-size-mb", "10"]
    assert _study(*options, *chain, "--trials", "1") == 0
    (row,) = _record(tmp_path).trials
    assert row.state == "complete" and row.score is not None and row.rungs == (row.score,)
    assert {name: row.settings[name] for name in ("runtime", "trim", "prune")} == {
        "runtime": "int8",
        "trim": "on",
        "prune": 0.3,
    }
    own = tmp_path / "runs" / "s" / "trials" / "0" / "rung-0"
    assert not (own / "shipped").exists() and not (own / "model").exists()
    outcome = json.loads((own / "shipped.json").read_text(encoding="utf-8"))
    assert outcome["score"] == row.score
    assert outcome["costs"] == {"latency_ms": row.latency_ms, "size_mb": row.size_mb}
    (before,) = (tmp_path / "runs" / "s" / "costs").glob("*.json")
    assert json.loads(before.read_text(encoding="utf-8"))["size_mb"] == pytest.approx(row.size_mb, rel=0.2)
    assert "of what ships" in (tmp_path / "reports" / "s.html").read_text(encoding="utf-8")


def test_in_full_the_preset_and_the_best_are_compared_as_they_ship(
    tmp_path: Path, options: list[object], short_recipes: None
) -> None:
    chain = ["--fix", "trim=on,prune=0.3,layers=2,budget=0.5", "--confirm", "1", "--seeds", "1"]
    assert _study(*options, *chain, "--trials", "1") == 0
    preset, best = _record(tmp_path).finals
    assert (preset.name, best.name) == ("preset", "trial 0")
    for final in (preset, best):
        folder = Path(final.folder)
        seed = folder.parents[2]
        model, tokenizer = load(folder)
        whole, pieces = load(seed / "model")
        assert len(tokenizer) == model.config.vocab_size < len(pieces)
        assert shape_of(model).encoder_parameters <= 0.7 * shape_of(whole).encoder_parameters
        assert final.size_mb == pytest.approx((folder / "model.safetensors").stat().st_size / 1e6)
    assert "preset" in preset.folder and best.against_preset is not None


def test_what_cannot_be_shipped_is_refused_before_there_is_a_teacher(
    tmp_path: Path, options: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _study(*options, "--range", "prune=0|0.95", "--trials", "1") == 2
    assert "can go with these parts" in capsys.readouterr().err
    assert _study(*options, "--student", "albert", "--fix", "prune=0.5", "--trials", "1") == 2
    assert "share their weights" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_an_onnx_student_beside_the_preset_in_torch_and_a_run_of_it(
    tmp_path: Path, options: list[object], short_recipes: None
) -> None:
    space = ["--fix", "layers=2,budget=0.5", "--range", "runtime=onnx|int8"]
    full = ["--confirm", "1", "--seeds", "1", "--apply", "best", "--no-speed"]
    assert _study(*options, *space, "--trials", "1", *full) == 0
    record = _record(tmp_path)
    preset, best = record.finals
    assert (Path(preset.folder) / "model.safetensors").is_file() and (Path(best.folder) / "model.onnx").is_file()
    assert best.against_preset is not None and set(best.by_seed) == set(preset.by_seed)
    applied = Record.load(tmp_path / "runs" / "s-trial-0" / "record.json")
    assert applied.model("tiny").architecture["layers"] == 2
    (chain,) = applied.compression
    shipped = chain.rows[-1]
    assert (shipped.runtime.split()[0], shipped.role) == ("onnxruntime", "chain")
    assert shipped.precision.startswith("int8") == (record.trials[0].settings["runtime"] == "int8")
    assert Path(shipped.folder, "model.onnx").is_file()
