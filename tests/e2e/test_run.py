"""The main command from data to report, killed and resumed, and on bad input."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from e2e.conftest import kill_when, run
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from common.command import run_command
from distill.config import RunConfig
from distill.run import main
from reports.record import Record
from teacher.data import load_task


def options_for(tmp_path: Path, reviews: Path, encoder: Path) -> list[object]:
    return [
        "distill.run",
        "--task",
        reviews,
        "--teacher",
        encoder,
        "--runs",
        tmp_path / "runs",
        "--reports",
        tmp_path / "reports",
        "--teacher-learning-rate",
        "2e-3",
        "--teacher-epochs",
        "6",
        "--precision",
        "fp32",
    ]


def _run(*arguments: object) -> int:
    return run_command(main, RunConfig, arguments=[str(argument) for argument in arguments[1:]])


def test_three_students_from_a_file_to_a_report(
    tmp_path: Path,
    reviews: Path,
    encoder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    forked_workers: None,
) -> None:
    # Other tests measure; here it is enough that every model is, on every cell.
    monkeypatch.setattr("distill.measure.MOST_REPEATS", 3)
    monkeypatch.setattr("distill.measure.WARM_UP_SECONDS", 0.0)
    monkeypatch.setattr("distill.measure.peak_memory", lambda folder, threads: (folder / "config.json").stat().st_size)
    options = [*options_for(tmp_path, reviews, encoder), "--budget", "0.05"]
    assert _run(*options, "--student", "tiny,distil,albert", "--seeds", "2", "--jobs", "2") == 0
    output = capsys.readouterr().out
    folder = tmp_path / "runs" / "reviews-tiny-distil-albert"
    record = Record.load(folder / "record.json")
    twins = [f"{name} without distillation" for name in ("tiny", "distil", "albert")]
    expected = {"teacher", "tiny", "distil", "albert", *twins, "TF-IDF + logistic regression"}
    assert {card.name for card in record.models} == expected
    assert record.model("teacher").quality.value > 0.9
    for name in ("tiny", "distil", "albert"):
        card = record.model(name)
        assert card.quality.n == record.task.rows["evaluate"]
        assert list(card.quality.by_seed) == ["0", "1"]
        assert card.quality.against_twin is not None
        assert {curve.name for curve in card.curves} >= set(card.stages[-1].losses)
        assert [distance.student_layer for distance in card.layer_distances] == list(
            range(card.architecture["layers"] + 1)
        )
        assert {(cell.batch, cell.length) for cell in card.speed.latency} == {(1, 16), (32, 16), (1, 128), (32, 128)}
        assert card.speed.peak_memory_bytes > 0
        assert f"{card.quality.value:.4f}" in output
    page = tmp_path / "reports" / "reviews-tiny-distil-albert.html"
    assert str(page) in output
    assert "tiny" in page.read_text(encoding="utf-8")
    assert (tmp_path / "reports" / "index.html").is_file()
    _loads_without_us(folder / "tiny" / "seed-0", reviews)
    assert _run(*options, "--student", "tiny", "--no-twins", "--no-speed") == 0
    assert "reusing" in capsys.readouterr().out
    assert (tmp_path / "runs" / "reviews-tiny" / "record.json").is_file()


def _loads_without_us(job: Path, reviews: Path) -> None:
    """The model folder gives the answers that were reported, through transformers' Auto classes alone."""
    model = AutoModelForSequenceClassification.from_pretrained(job / "model").eval()
    tokenizer = AutoTokenizer.from_pretrained(job / "model")
    assert model.config.id2label == {0: "negative", 1: "positive"}
    texts = [example.text for example in load_task(str(reviews)).splits["evaluate"]]
    with torch.no_grad():
        logits = model(**tokenizer(texts, padding=True, return_tensors="pt")).logits
    assert np.allclose(logits.numpy(), np.load(job / "answers" / "evaluate.npy"), atol=1e-5)
    assert not [path for path in (job / "model").iterdir() if path.suffix in (".bin", ".pt", ".pkl")]


def test_killed_in_every_stage_and_resumed_to_the_same_weights(
    tmp_path: Path, reviews: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [*options_for(tmp_path, reviews, encoder), "--student", "tiny", "--no-twins", "--no-speed"]
    options += ["--checkpoint-every", "4", "--budget", "0.4", "--teacher-epochs", "2"]
    assert _run(*options, "--name", "whole") == 0
    whole = tmp_path / "runs" / "whole" / "tiny" / "seed-0"
    teachers = tmp_path / "runs" / "teachers"
    (teacher,) = teachers.iterdir()
    first = load_file(teacher / "model" / "model.safetensors")
    shutil.rmtree(teachers)
    cut = tmp_path / "runs" / "cut" / "tiny" / "seed-0"
    kill_when(teachers, "*/training/step-*/state.json", *options, "--name", "cut")
    for stage in ("general", "intermediate", "prediction"):
        kill_when(cut / stage, "step-*/state.json", *options, "--name", "cut", "--resume")
        assert not (cut / stage / "stage.json").exists(), f"killed after {stage} instead of in it"
    capsys.readouterr()
    assert _run(*options, "--name", "cut", "--resume") == 0
    assert "going on from" in capsys.readouterr().out
    for name, before, after in (
        ("teacher", first, load_file(teacher / "model" / "model.safetensors")),
        ("tiny", *(load_file(folder / "model" / "model.safetensors") for folder in (whole, cut))),
    ):
        assert before.keys() == after.keys()
        assert all(torch.equal(before[key], after[key]) for key in before), name
    assert np.array_equal(np.load(whole / "answers" / "evaluate.npy"), np.load(cut / "answers" / "evaluate.npy"))
    assert not list(whole.rglob("weights.safetensors")), "weights of stages stay beside those of the model"
    for stage in ("general", "intermediate", "prediction"):
        assert (whole / stage / "history.jsonl").read_text() == (cut / stage / "history.jsonl").read_text()


def test_an_interrupted_run_of_others_is_left_alone(
    tmp_path: Path, reviews: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "runs" / "mine"
    mine.mkdir(parents=True)
    (mine / "notes.txt").write_text("do not touch")
    message = _mistake(capsys, *options_for(tmp_path, reviews, encoder), "--name", "mine")
    assert "is there already" in message
    assert [path.name for path in mine.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["--student", "tinny"], ["unknown student 'tinny'", "did you mean 'tiny'"]),
        (["--task", "nowhere.csv"], ["nowhere.csv"]),
        (["--label-column", "lable"], ["lable", "label"]),
        (["--studnet", "tiny"], ["--studnet", "--student"]),
        (["--teacher", "./nowhere"], ["./nowhere", "config.json"]),
        (["--resume"], ["no unfinished run"]),
        (["--start", "copy"], ["copy", "prune"]),
        (["--trim-vocabulary", "--general-text", "nowhere.txt"], ["--general-text nowhere.txt", "does not exist"]),
        (["--budget", "0", "--seeds", "0"], ["--budget 0", "--seeds 0"]),
    ],
)
def test_a_mistake_gives_one_message_and_code_2(
    tmp_path: Path,
    reviews: Path,
    encoder: Path,
    changes: list[str],
    words: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    message = _mistake(capsys, *options_for(tmp_path, reviews, encoder), *changes)
    assert all(word in message for word in words), message
    assert not list((tmp_path / "runs").glob("*/record.json"))


def _mistake(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What the command says on standard error; in this process, since starting another takes seconds."""
    try:
        code: object = run_command(main, RunConfig, arguments=[str(argument) for argument in arguments[1:]])
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    return capsys.readouterr().err


def test_a_teacher_whose_labels_differ_is_refused(
    tmp_path: Path, reviews: Path, encoder: Path, tiny_bert, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    shutil.copytree(encoder, other)
    tiny_bert(layers=4, labels=2, id2label={0: "spam", 1: "ham"}, label2id={"spam": 0, "ham": 1}).save_pretrained(other)
    message = _mistake(capsys, *options_for(tmp_path, reviews, other))
    assert "spam, ham" in message
    assert "negative, positive" in message


def test_a_classifier_without_a_trained_head_is_refused(
    tmp_path: Path, reviews: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = json.loads((encoder / "config.json").read_text())
    labels = {"id2label": {"0": "negative", "1": "positive"}, "label2id": {"negative": 0, "positive": 1}}
    (encoder / "config.json").write_text(
        json.dumps(config | labels | {"architectures": ["BertForSequenceClassification"]})
    )
    message = _mistake(capsys, *options_for(tmp_path, reviews, encoder))
    assert "untrained head" in message
    assert "classifier" in message


def test_help_teaches() -> None:
    text = run("distill.run", "--help")
    for option in (
        "--student",
        "--teacher",
        "--task",
        "--seeds",
        "--resume",
        "--teacher-learning-rate",
        "default: tiny",
        "Examples",
    ):
        assert option in text
