"""The ablation command as a user meets it: killed, gone on with, extended in the same folder, and mistakes."""

import json
from pathlib import Path

import numpy as np
import pytest
from e2e.conftest import kill_when

from common.ablation_record import AblationRecord
from common.command import run_command
from teacher.ablate import main
from teacher.ablation_config import AblateConfig


@pytest.fixture
def options(tmp_path: Path, reviews: Path) -> list[str]:
    """A corpus of 40 made-up documents, and pretraining and learning for seconds."""
    rng = np.random.default_rng(0)
    words = ["good", "bad", "film", "plot", "actor", "music", "the", "is", "very", "not"]
    documents = [" ".join(" ".join(rng.choice(words, size=7)) + "." for _ in range(6)) for _ in range(40)]
    corpus = tmp_path / "words.txt"
    corpus.write_text("\n\n".join(documents), encoding="utf-8")
    pretraining = ["--corpus", str(corpus), "--size", "tiny", "--vocabulary", "80", "--length", "32"]
    pretraining += ["--batch-size", "4", "--steps", "4", "--precision", "fp32"]
    task = ["--task", str(reviews), "--teacher-epochs", "1", "--reports", str(tmp_path / "reports")]
    return [*pretraining, *task]


def _run(*arguments: object) -> int:
    return run_command(main, AblateConfig, arguments=[str(argument) for argument in arguments])


def _finished(out: Path) -> dict[Path, int]:
    """What is done, and when it was written."""
    files = [*out.glob("pretrained/*/pretraining.json"), *out.glob("answers/*/answers.json")]
    return {path: path.stat().st_mtime_ns for path in files}


def test_killed_gone_on_with_and_extended(
    tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out, whole = tmp_path / "runs" / "ablation", tmp_path / "other" / "whole"
    asked = [*options, "--study", "objective", "--seeds", "1"]
    kill_when(out / "answers", "*/answers.json", "teacher.ablate", *asked, "--out", out)
    assert not (out / "ablation.json").exists()
    finished = _finished(out)
    assert _run(*asked, "--out", out) == 0
    assert finished.items() <= _finished(out).items()
    assert f"report: {tmp_path / 'reports' / 'ablation.html'}" in capsys.readouterr().out
    assert (tmp_path / "reports" / "index.html").is_file()
    assert _run(*asked, "--out", whole) == 0
    (resumed,), (alone,) = (AblationRecord.load(folder / "ablation.json").studies for folder in (out, whole))
    assert [(row.by_seed, row.against_first, row.pretraining.held_out) for row in resumed.rows] == [
        (row.by_seed, row.against_first, row.pretraining.held_out) for row in alone.rows
    ]
    assert [row.pretraining.steps for row in resumed.rows] == [4.0, 4.0, 4.0]
    assert {"mlm_accuracy", "nsp_accuracy"} <= resumed.rows[0].pretraining.held_out.keys()
    assert "ltr_loss" in resumed.rows[2].pretraining.held_out
    assert [curve.steps for curve in resumed.rows[2].pretraining.curves] == [(1, 2, 3, 4)] * 2

    kept = _finished(out)
    assert _run(*options, "--study", "features", "--seeds", "2", "--out", out) == 0
    assert kept.items() <= _finished(out).items()
    record = AblationRecord.load(out / "ablation.json")
    (features,) = record.studies
    assert [row.name for row in features.rows][:2] == ["fine-tuned", "embeddings"]
    assert features.rows[0].by_seed["0"] == resumed.rows[0].by_seed["0"]
    assert all(row.by_seed.keys() == {"0", "1"} and row.spread is not None for row in features.rows)
    assert all(row.against_first is not None for row in features.rows[1:])
    assert record.provenance.seeds == (0, 1)
    assert "last two, concatenated" in (tmp_path / "reports" / "ablation.html").read_text(encoding="utf-8")
    assert record.task.majority == pytest.approx(0.5, abs=0.1)


def test_mistakes_are_said_before_anything_is_made(
    tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine"
    assert _run(*options, "--study", "dept", "--depths", "x", "--out", out) == 2
    message = capsys.readouterr().err
    assert "did you mean 'depth'" in message and "--depths x" in message
    assert not out.exists()
    for wrong in (["--steps", "0"], ["--minutes", "nan"], ["--vocabulary", "0"]):
        assert _run(*options, *wrong, "--out", out) == 2
        assert f"{' '.join(wrong)}: expected" in capsys.readouterr().err
    out.mkdir()
    (out / "thesis.txt").write_text("years of work", encoding="utf-8")
    assert _run(*options, "--out", out) == 2
    assert "mine holds something else: choose another folder" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]
    assert _run(*options, "--out", out / "thesis.txt") == 2
    assert "thesis.txt is a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "more", "words"),
    [
        ('{"tokens": ["a", "b%"], "tags": ["O", "B-x"]}', [], "is of the kind tags: encoders are compared on classes"),
        (
            '{"question": "a?", "context": "b%", "answers": {"text": ["b%"], "answer_start": [0]}}',
            [],
            "is of the kind questions",
        ),
        ('{"question": "a%?", "choices": ["b", "c"], "label": 0}', [], "is of the kind choices"),
        ('{"text": "a %", "label": %.5}', ["--teacher-class-weights", "balanced"], "--teacher-class-weights"),
        ('{"text": "a %", "label": "x"}', ["--teacher-pooling", "mean"], "--teacher-pooling mean: encoders are"),
    ],
)
def test_what_encoders_cannot_be_compared_on_is_said_before_any_is_pretrained(
    tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str], content: str, more: list[str], words: str
) -> None:
    task = tmp_path / "task.jsonl"
    task.write_text("\n".join(content.replace("%", str(number)) for number in range(40)), encoding="utf-8")
    assert _run(*options, "--task", task, *more, "--out", tmp_path / "out") == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_page_that_cannot_be_made_costs_no_record(
    tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "reports").write_text("a file in the way", encoding="utf-8")
    out = tmp_path / "runs" / "depth"
    assert _run(*options, "--study", "depth", "--depths", "1", "--seeds", "1", "--out", out) == 0
    said = capsys.readouterr().out
    assert f"the record is {out / 'ablation.json'}" in said and "-m reports.build" in said
    assert json.loads((out / "ablation.json").read_text(encoding="utf-8"))["name"] == "depth"
