"""The pretraining command as a user meets it: real text, kill -9, --resume, and mistakes."""

import contextlib
import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from e2e.conftest import kill_when
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForPreTraining, AutoTokenizer

from common import files
from common.command import run_command
from common.errors import UserError
from teacher import loop_config
from teacher import pretrain as command
from teacher.course import run_course
from teacher.history import read_rows
from teacher.loop import Outcome
from teacher.pretrain import PretrainCommand, main, pretrain
from teacher.pretrain_config import PretrainConfig
from teacher.pretrain_options import ScheduleOptions
from teacher.scratch import encoder_for
from teacher.scratch_options import ScratchOptions

SETTINGS = ["--size", "tiny", "--vocabulary", "400", "--length", "32", "--batch-size", "8", "--precision", "fp32"]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 made-up documents, separated by empty lines."""
    rng = np.random.default_rng(0)
    words = ["red", "green", "blue", "house", "tree", "runs", "sees", "takes", "quickly", "slowly", "the", "a"]
    documents = [" ".join(" ".join(rng.choice(words, size=7)) + "." for _ in range(6)) for _ in range(40)]
    path = tmp_path_factory.mktemp("text") / "words.txt"
    path.write_text("\n\n".join(documents), encoding="utf-8")
    return path


def _run(*arguments: str) -> int:
    return run_command(main, PretrainCommand, arguments=arguments)


def _config(text: Path, **changes: object) -> PretrainConfig:
    small = {"size": "tiny", "vocabulary": 100, "length": 32, "batch_size": 4, "steps": 6, "precision": "fp32"}
    return PretrainConfig(corpus=str(text), **small | {"checkpoint_every": 2} | changes)


def _assert_equal_weights(one: Path, two: Path) -> None:
    first, second = load_file(one / "model.safetensors"), load_file(two / "model.safetensors")
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_killed_and_resumed_on_novels_it_ends_with_the_same_weights(tmp_path: Path, shared_data: Path) -> None:
    novels = tmp_path / "novels"
    novels.mkdir()
    for file in sorted((shared_data / "novels").glob("*.gz"))[:4]:
        with gzip.open(file, "rb") as stream:
            (novels / file.stem).write_bytes(stream.read(60_000))
    arguments = ["--corpus", str(novels), *SETTINGS, "--steps", "30", "--checkpoint-every", "5"]
    arguments += ["--long-length", "48", "--long-share", "0.5", "--evaluate-every", "15"]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    training = tmp_path / "killed-unfinished" / "training"
    # Step 20 is in the second phase.
    kill_when(training, "step-20", "teacher.pretrain", *arguments, "--out", killed)
    assert not killed.exists()
    assert _run(*arguments, "--out", str(killed)) == 2
    assert _run(*arguments, "--out", str(killed), "--resume") == 0
    assert _run(*arguments, "--out", str(whole)) == 0
    _assert_equal_weights(killed, whole)
    assert read_rows(killed / "history.jsonl") == read_rows(whole / "history.jsonl")
    assert not training.parent.exists()


def test_the_folder_loads_everywhere_and_says_what_it_is(tmp_path: Path, text: Path) -> None:
    folder = pretrain(_config(text), tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer("the house sees", "a tree", return_tensors="pt")
    assert AutoModel.from_pretrained(folder)(**inputs).last_hidden_state.shape[-1] == 128
    assert AutoModelForPreTraining.from_pretrained(folder)(**inputs).seq_relationship_logits.shape == (1, 2)
    model = AutoModelForMaskedLM.from_pretrained(folder)
    assert model(**inputs).logits.shape[-1] == len(tokenizer) == model.config.vocab_size
    assert (model.config.hidden_dropout_prob, model.config.attention_probs_dropout_prob) == (0.1, 0.1)
    summary = json.loads((folder / "pretraining.json").read_text(encoding="utf-8"))
    assert summary["settings"]["steps"] == summary["steps"] == 6
    assert 0.4 < summary["random_pair_share"] <= 1 and summary["tokens"] > 0
    assert {"mlm_loss", "mlm_accuracy", "nsp_accuracy"} <= set(summary["held_out"])
    assert [row.step for row in read_rows(folder / "history.jsonl")] == [1, 2, 3, 4, 5, 6]
    assert "BERT tiny" in (folder / "README.md").read_text(encoding="utf-8")


def test_a_finished_one_is_reused_and_another_is_kept(
    tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = pretrain(_config(text), tmp_path / "model")
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert pretrain(_config(text), folder) == folder
    assert "reused" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"other settings \(seed 0 there, 1 asked for\)"):
        pretrain(_config(text, seed=1), folder)
    with pytest.raises(UserError, match=r"other settings \(masking none there, whole-word asked for\)"):
        pretrain(_config(text, masking="whole-word"), folder)
    settings = folder / "pretraining.json"
    settings.write_text(settings.read_text().replace('"size"', '"masking": "whole-word",\n"size"'))
    with pytest.raises(UserError, match=r"other settings \(masking whole-word there, none asked for\)"):
        pretrain(_config(text), folder)
    assert (folder / "model.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize("damage", ["weights.safetensors", "state.json"])
def test_a_damaged_checkpoint_is_named_and_the_end_is_the_same(
    tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(command, "write_model", stop)
        pretrain(_config(text), tmp_path / "model")
    (checkpoint,) = (tmp_path / "model-unfinished" / "training").glob("step-*")
    (checkpoint / damage).write_bytes(b"{")
    pretrain(_config(text, resume=True), tmp_path / "model")
    assert "is damaged" in capsys.readouterr().out
    _assert_equal_weights(pretrain(_config(text), tmp_path / "whole"), tmp_path / "model")


def test_minutes_become_steps_once(tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "steps_in", lambda *_: 5)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(command, "run_course", stop)
        pretrain(_config(text, steps=None, minutes=0.005), tmp_path / "model")
    # Timed again, it would stop once more.
    monkeypatch.setattr(command, "steps_in", stop)
    folder = pretrain(_config(text, steps=None, minutes=0.005, resume=True), tmp_path / "model")
    summary = json.loads((folder / "pretraining.json").read_text(encoding="utf-8"))
    assert (summary["settings"]["minutes"], summary["steps"]) == (0.005, 5)
    assert len(read_rows(folder / "history.jsonl")) == 5


def test_a_few_steps_are_timed_for_minutes(tmp_path: Path, text: Path) -> None:
    folder = pretrain(_config(text, steps=None, minutes=0.005), tmp_path / "model")
    summary = json.loads((folder / "pretraining.json").read_text(encoding="utf-8"))
    assert summary["settings"]["minutes"] == 0.005 and summary["steps"] >= 1


def test_a_given_vocabulary_and_rows_of_json(tmp_path: Path) -> None:
    pieces = ["[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]", *"abcd", *(f"##{letter}" for letter in "abcd"), "A"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces), encoding="utf-8")
    rows = [{"body": f"Ab {'abcd '[: n % 5]}.\ncd"} for n in range(40)]
    (tmp_path / "text.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    given = {"vocabulary": None, "tokenizer": str(tmp_path / "vocab.txt"), "text_column": "body"}
    folder = pretrain(_config(tmp_path / "text.jsonl", **given), tmp_path / "model")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    assert tokenizer("A ab").input_ids == [3, 13, 5, 10, 1]
    assert (model.config.vocab_size, model.config.pad_token_id) == (14, 2)
    assert "14 WordPieces, cased" in (folder / "README.md").read_text(encoding="utf-8")
    (tmp_path / "vocab.txt").write_text("\n".join([*pieces, "B"]), encoding="utf-8")
    with pytest.raises(UserError, match=r"other settings \(tokenizer_fingerprint"):
        pretrain(_config(tmp_path / "text.jsonl", **given), folder)


def test_something_else_in_the_folder_is_kept(tmp_path: Path, text: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="mine holds something else: choose another"):
        pretrain(_config(text), tmp_path / "mine")
    (tmp_path / "mine").rename(tmp_path / "new-unfinished")
    with pytest.raises(UserError, match="new-unfinished holds something else"):
        pretrain(_config(text), tmp_path / "new")
    assert (tmp_path / "new-unfinished" / "thesis.txt").read_text() == "years of work"


def test_a_run_waits_for_another_of_the_same_folder_and_takes_its_model(
    tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made, folder, work = tmp_path / "made", tmp_path / "model", tmp_path / "model-unfinished"
    pretrain(_config(text), made)
    other = contextlib.ExitStack()
    other.enter_context(files.sole_use(work))
    (work / "plan.json").write_text("{}")

    def finish(message: str) -> None:
        assert message == f"{work} is in use by another process: waiting for it"
        made.rename(folder)
        shutil.rmtree(work)
        other.close()

    monkeypatch.setattr(files, "say", finish)
    assert pretrain(_config(text), folder) == folder
    assert "reused" in capsys.readouterr().out and not work.exists()


def test_an_encoder_from_nothing_on_other_text_stands_beside_the_first(
    tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "words.txt"
    shutil.copyfile(text, own)
    scratch = ScratchOptions(scratch_size="tiny", scratch_steps=1)

    def encoder(precision: str = "fp32") -> Path:
        made = encoder_for(
            "scratch", tmp_path, corpus=str(own), precision=precision, checkpoint_every=9, scratch=scratch
        )
        return Path(made)

    first = encoder()
    assert first == tmp_path / "tiny-words-1"
    own.write_text(text.read_text() + "\n\nA new document. It is short.")
    second = encoder()
    assert re.fullmatch(r"tiny-words-1-[0-9a-f]{8}", second.name) and second.parent == tmp_path
    assert (second / "model.safetensors").is_file()
    capsys.readouterr()
    assert encoder() == second and "reused" in capsys.readouterr().out
    shutil.copyfile(text, own)
    assert encoder() == first
    assert encoder("auto") not in (first, second)


def test_what_comes_into_the_folder_meanwhile_is_kept_and_so_is_the_model(
    tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()

    def disturbed(*arguments: Any, **options: Any) -> Outcome:
        outcome = run_course(*arguments, **options)
        (folder / "notes.txt").write_text("written while it ran")
        return outcome

    monkeypatch.setattr(command, "run_course", disturbed)
    with pytest.raises(UserError, match=r"model cannot become the finished model .* is in .*model-unfinished/model\."):
        pretrain(_config(text), folder)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    assert AutoModelForMaskedLM.from_pretrained(tmp_path / "model-unfinished" / "model").config.hidden_size == 128


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (["--steps", "0"], "--steps 0: expected at least 1"),
        (["--steps", "-3"], "--steps -3: expected at least 1"),
        (["--minutes", "inf"], "--minutes inf: expected a number above 0"),
        (["--minutes", "nan"], "--minutes nan: expected a number above 0"),
        (["--vocabulary", "0"], "--vocabulary 0: expected a number above 0"),
        (["--out", "."], "--out .: a new folder is made, so give it a name"),
    ],
)
def test_values_that_cannot_be_are_one_line(
    tmp_path: Path,
    text: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    wrong: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _run("--corpus", str(text), "--out", "model", *wrong) == 2
    message = capsys.readouterr().err
    assert words in message and len(message.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("inside", ["model", "model/curves", "model-unfinished", "other/../model-unfinished/curves"])
def test_curves_in_the_folder_of_the_model_are_refused(tmp_path: Path, text: Path, inside: str) -> None:
    schedule = ScheduleOptions(tensorboard=tmp_path / inside)
    with pytest.raises(UserError, match=r"--tensorboard .* is inside .*: choose a folder beside it, such as .*-curves"):
        pretrain(_config(text, schedule=schedule), tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_damaged_plan_or_other_settings_stop_a_resume(tmp_path: Path, text: Path) -> None:
    work = tmp_path / "new-unfinished"
    work.mkdir()
    (work / "plan.json").write_text('{"settings": {"size": "mini"}, "steps": null}')
    with pytest.raises(UserError, match=r"interrupted run of other settings .*size mini there, tiny asked for"):
        pretrain(_config(text, resume=True), tmp_path / "new")
    (work / "plan.json").write_text('{"settings"')
    with pytest.raises(UserError, match=r"plan\.json is damaged"):
        pretrain(_config(text, resume=True), tmp_path / "new")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty|no text"),
        ("\n\n \n", "empty|no text"),
        ("One sentence. Another one.\n\nSecond document.\n", "found 2 documents with text, at least 4"),
        ("\n\n".join(["The quick brown fox jumps over the lazy dog."] * 9), "--vocabulary 20 is smaller"),
    ],
)
def test_too_little_text_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "text.txt").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        pretrain(_config(tmp_path / "text.txt", vocabulary=20), tmp_path / "out")
    # Nothing is in the way of the same command, corrected.
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_a_precision_that_does_not_pay_is_refused_before_the_text_is_read(
    tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_config, "bf16_pays", lambda: False)
    monkeypatch.setattr(command, "load_corpus", lambda *_, **__: pytest.fail("the text was read"))
    with pytest.raises(UserError, match="--precision bf16: this processor emulates bf16"):
        pretrain(_config(text, precision="bf16"), tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_weights_that_the_last_step_ruined_are_not_written(tmp_path: Path, text: Path) -> None:
    with pytest.raises(UserError, match=r"the held-out figure 'mlm_loss' is nan at step 1.* lower the learning rate"):
        pretrain(_config(text, steps=1, learning_rate=1e25), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_all_wrong_options_are_named_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["--size", "minni", "--objective", "mlm+nps", "--steps", "5", "--minutes", "2", "--length", "9"]
    wrong += ["--tokenizer", "minilm", "--cased", "--workers", "0"]
    assert _run(*wrong, "--learning-rate", "0", "--out", str(tmp_path / "out")) == 2
    message = capsys.readouterr().err
    named = ("did you mean 'mini'", "'mlm+nsp'", "contradict", "--length 9", "learning rate 0.0", "--workers 0")
    for part in (*named, "--tokenizer takes a vocabulary"):
        assert part in message
    assert _run("--corpus", str(tmp_path / "nothing.txt"), "--out", str(tmp_path / "out")) == 2
    assert "does not exist" in capsys.readouterr().err
