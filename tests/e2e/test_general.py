"""General distillation as a user meets it: one student for all tasks, kill -9, --resume, mistakes; and other shapes."""

import json
from pathlib import Path

import pytest
import torch
from e2e.conftest import kill_when
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

from common.command import run_command
from distill import general
from distill.config import RunConfig
from distill.general import main
from distill.general_config import GeneralConfig
from distill.run import main as run_main
from reports.record import Record
from teacher.history import read_rows
from teacher.pretrain import pretrain
from teacher.pretrain_config import PretrainConfig


@pytest.fixture
def text(tmp_path: Path, reviews: Path) -> Path:
    """The words of the reviews, a document a line."""
    lines = [line.rpartition(",")[0] for line in reviews.read_text(encoding="utf-8").splitlines()[1:]]
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join(f"{one}. {two}." for one, two in zip(lines[::2], lines[1::2], strict=True)))
    return path


@pytest.fixture
def scratch(tmp_path: Path, text: Path) -> Path:
    """A BERT of 2 layers of 128, pretrained here for a moment, with heads."""
    config = PretrainConfig(
        corpus=str(text), size="tiny", vocabulary=150, length=32, batch_size=8, steps=30, precision="fp32"
    )
    return pretrain(config, tmp_path / "scratch")


def _options(text: Path, teacher: Path, out: Path, *more: object) -> list[object]:
    sizes = ["--batch-size", 8, "--length", 32, "--precision", "fp32"]
    return ["distill.general", "--teacher", teacher, "--text", text, "--out", out, *sizes, *more]


def _run(options: list[object]) -> int:
    return run_command(main, GeneralConfig, arguments=[str(option) for option in options[1:]])


def _distil(*options: object) -> None:
    """The main command in this process."""
    fast = ["--no-speed", "--teacher-learning-rate", "2e-3", "--precision", "fp32", "--no-twins"]
    assert run_command(run_main, RunConfig, arguments=[str(option) for option in (*options, *fast)]) == 0


def test_killed_and_resumed_it_ends_with_the_same_folder(
    tmp_path: Path, text: Path, scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--student", "distil", "--steps", 60, "--checkpoint-every", 5]
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    kill_when(tmp_path / "cut-unfinished" / "training", "step-*/state.json", *_options(text, scratch, cut, *more))
    assert not cut.exists()
    assert _run(_options(text, scratch, cut, *more)) == 2
    assert "go on with --resume" in capsys.readouterr().err
    assert _run(_options(text, scratch, cut, *more, "--resume")) == 0
    output = capsys.readouterr().out
    assert "going on from" in output
    assert output.splitlines()[-1] == f"student: {cut}"
    assert _run(_options(text, scratch, whole, *more)) == 0
    one, two = (load_file(folder / "model.safetensors") for folder in (cut, whole))
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert read_rows(cut / "history.jsonl") == read_rows(whole / "history.jsonl")
    assert set(read_rows(cut / "history.jsonl")[-1].values) >= {"soft", "mlm", "cosine"}
    assert not (tmp_path / "cut-unfinished").exists()
    capsys.readouterr()
    assert _run(_options(text, scratch, whole, *more)) == 0
    assert "reused" in capsys.readouterr().out


def test_a_shorter_teacher_is_said_and_the_student_of_another_one_in_its_place_is_not_reused(
    tmp_path: Path, text: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = _options(text, encoder, tmp_path / "out", "--steps", 2, "--length", 200)
    assert _run(options) == 0
    assert "--length 200: the teacher has positions for 128 pieces" in capsys.readouterr().out
    model = AutoModel.from_pretrained(encoder)
    with torch.no_grad():
        model.encoder.layer[0].output.dense.weight.mul_(2.0)
    model.save_pretrained(encoder)
    assert _run(options) == 2
    assert "other settings (teacher_weights" in capsys.readouterr().err


def test_a_refusal_leaves_no_folder_behind_and_comes_before_a_teacher_is_pretrained(
    tmp_path: Path, text: Path, encoder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.txt"
    empty.touch()
    assert _run(_options(empty, encoder, tmp_path / "out", "--steps", 2)) == 2
    assert "no text in empty.txt" in capsys.readouterr().err
    assert not list(tmp_path.glob("out*"))
    (tmp_path / "out-unfinished").mkdir()
    (tmp_path / "out-unfinished" / "plan.json").write_text('{"settings": {}, "steps": null}')
    monkeypatch.setattr(general, "encoder_for", lambda *_, **__: pytest.fail("a teacher was made"))
    assert _run(_options(text, Path("scratch"), tmp_path / "out", "--steps", 2, "--resume")) == 2
    assert "interrupted run of other settings" in capsys.readouterr().err


def test_one_student_for_all_tasks(tmp_path: Path, text: Path, scratch: Path, reviews: Path) -> None:
    folder = tmp_path / "general"
    assert _run(_options(text, scratch, folder, "--student", "tiny", "--layers", 2, "--hidden", 64, "--epochs", 2)) == 0
    tokenizer = AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer("the film is good", return_tensors="pt")
    assert AutoModel.from_pretrained(folder)(**inputs).last_hidden_state.shape[-1] == 64
    assert AutoModelForMaskedLM.from_pretrained(folder)(**inputs).logits.shape[-1] == len(tokenizer)
    summary = json.loads((folder / "general.json").read_text(encoding="utf-8"))
    assert summary["settings"]["losses"] == {"embedding": 1.0, "hidden": 1.0, "attention": 1.0}
    assert summary["steps"] == 2 * -(-summary["sequences"] // 8)
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "2 layers of 64" in card and "AutoModelForMaskedLM" in card
    first = read_rows(folder / "history.jsonl")[0].values["loss"]
    assert summary["last_losses"]["hidden"] < first
    _distil(
        *("--student", "tiny", "--student-from", folder, "--task", reviews, "--teacher", scratch),
        *("--runs", tmp_path / "runs", "--reports", tmp_path / "reports"),
    )
    record = Record.load(tmp_path / "runs" / "reviews-tiny" / "record.json")
    student = record.model("tiny")
    assert (student.architecture["layers"], student.architecture["hidden"]) == (2, 64)
    assert [stage.name for stage in student.stages] == ["intermediate", "prediction"]
    assert str(folder) in student.start
    assert record.provenance.config["distilling"]["student_from"] == str(folder)


def test_deeper_and_wider_students_and_shared_parts(tmp_path: Path, reviews: Path, encoder: Path) -> None:
    _distil(
        *("--student", "tiny,albert", "--start", "random", "--layers", 6, "--hidden", 48, "--sharing", "attention"),
        *("--task", reviews, "--teacher", encoder, "--jobs", 1, "--runs", tmp_path / "runs"),
        *("--reports", tmp_path / "reports", "--budget", "0.05"),
    )
    record = Record.load(tmp_path / "runs" / "reviews-tiny-albert" / "record.json")
    for name in ("tiny", "albert"):
        card = record.model(name)
        assert (card.architecture["layers"], card.architecture["hidden"]) == (6, 48)
        assert card.start.startswith("random")
        assert [distance.student_layer for distance in card.layer_distances] == list(range(7))
    albert = record.model("albert")
    attention = 4 * 49 * 48 + 2 * 48
    # The file holds the shared part once a layer.
    assert albert.size.bytes_on_disk > 4 * (albert.size.parameters + 4 * attention)
    card = tmp_path / "runs" / "reviews-tiny-albert" / "albert" / "seed-0" / "model" / "README.md"
    assert "All 6 layers have one attention" in card.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--student", "distil"], ["no head for masked pieces", "--losses mlm=2,cosine=1", "scratch"]),
        (["--student", "tinny"], ["did you mean 'tiny'"]),
        (["--losses", "hiden"], ["did you mean 'hidden'"]),
        (["--losses", "soft=x"], ["--losses soft=x"]),
        (["--steps", "3", "--epochs", "1"], ["contradict"]),
        (["--steps", "0"], ["steps 0"]),
        (["--hidden", "64"], ["hidden 64 of 32", "--start random"]),
        (["--start", "general"], ["unknown --start for tiny 'general'"]),
        (["--sharing", "all"], ["--sharing: for --student albert only"]),
        (["--text", "nowhere.txt"], ["nowhere.txt"]),
        (["--layer-map", "nearest"], ["unknown --layer-map 'nearest'", "a list, as in 2,4,6"]),
        (["--layers", "2", "--layer-map", "0,4"], ["layer map 0,4", "no attention to compare"]),
        (["--layers", "2", "--layer-map", "1,9"], ["layer map '1,9'"]),
        (["--losses", "soft=2,soft=1"], ["--losses", "soft twice"]),
    ],
)
def test_a_mistake_gives_one_message_and_leaves_nothing(
    tmp_path: Path, text: Path, encoder: Path, more: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(_options(text, encoder, tmp_path / "out", *more)) == 2
    message = capsys.readouterr().err
    assert all(word in message for word in words), message
    assert not list(tmp_path.glob("out*"))


def test_a_run_refuses_students_that_cannot_be_before_it_trains(
    tmp_path: Path, reviews: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--task", reviews, "--teacher", encoder, "--runs", tmp_path / "runs", "--reports", tmp_path / "reports"]
    for more, words in (
        (["--student", "distil", "--layers", 5], "choose --layers 1 to 4, or --start random"),
        (["--student", "tiny", "--hidden", 30], "--hidden 30 is not a multiple of the 4 heads"),
        (["--student", "tiny", "--student-from", tmp_path], "has no config.json"),
    ):
        code = run_command(run_main, RunConfig, arguments=[str(option) for option in (*options, *more)])
        assert code == 2
        assert words in capsys.readouterr().err
    assert not list((tmp_path / "runs").glob("*"))
