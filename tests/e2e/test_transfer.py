"""The main command with augmented texts, unlabelled texts, mixtures of them, and outputs in the place of a teacher."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from e2e.conftest import FILLER
from e2e.test_run import options_for
from transformers import BertForPreTraining, PreTrainedModel

from common.command import run_command
from distill.config import RunConfig
from distill.run import main
from distill.transfer_sets import read_examples
from reports.record import Record
from teacher.data import load_task


@pytest.fixture
def masked_encoder(tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer) -> Path:
    """A BERT of 4 layers of 32, random weights, with an MLM head."""
    folder = tmp_path / "masked"
    tiny_bert(layers=4, model_class=BertForPreTraining).save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


def _run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, reviews: Path, encoder: Path, *more: object, code: int = 0
) -> tuple[Record | None, str]:
    """The record and what was said; in this process, since starting another takes seconds."""
    options = [
        *options_for(tmp_path, reviews, encoder)[1:],
        "--no-twins",
        "--no-speed",
        "--jobs",
        "1",
        "--budget",
        "0.05",
    ]
    options += ["--name", "mine", *more]
    assert run_command(main, RunConfig, arguments=[str(option) for option in options]) == code
    said = capsys.readouterr()
    path = tmp_path / "runs" / "mine" / "record.json"
    return (Record.load(path), said.out) if code == 0 else (None, said.err)


def test_augmented_stages_train_on_the_teachers_answers_to_new_texts(
    tmp_path: Path, reviews: Path, masked_encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, said = _run(capsys, tmp_path, reviews, masked_encoder, "--augment", 1)
    assert record is not None
    assert "masked language model of masked" in said
    folder = tmp_path / "runs" / "mine"
    originals = [(example.text, example.pair) for example in load_task(str(reviews)).splits["train"]]
    texts = [(example.text, example.pair) for example in read_examples(folder / "transfer" / "augmented")]
    assert len(set(texts)) == len(texts) == record.transfer[0].rows
    assert len(originals) < len(texts) <= 2 * len(originals)
    assert [text for text in texts if text in set(originals)] == originals
    logits = np.load(folder / "teacher" / "augmented" / "logits.npy")
    labeled = np.load(folder / "teacher" / "labeled" / "logits.npy")
    assert np.allclose(logits[[texts.index(text) for text in originals]], labeled, atol=1e-4)
    stages = {stage.name: stage for stage in record.model("tiny").stages}
    assert stages["intermediate"].examples == len(texts)
    assert stages["prediction"].examples == len(texts) + len(originals)
    page = (tmp_path / "reports" / "mine.html").read_text(encoding="utf-8")
    assert all(version in page for version in record.transfer[0].preview[0].versions)
    assert record.transfer[0].preview[0].versions


def test_a_mixture_is_distilled_on_in_its_shares(
    tmp_path: Path, reviews: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = tmp_path / "more.txt"
    more.write_text("\n".join(f"the {FILLER[index % 6]} number {index}" for index in range(90)) + "\n")
    options = ["--student", "distil", "--unlabeled", more, "--augment", 1]
    _, said = _run(capsys, tmp_path, reviews, encoder, *options, "--mix", "unlabeled=2,augmented=1", code=2)
    assert "give them a share in --mix, as in labeled=1" in said
    record, _ = _run(capsys, tmp_path, reviews, encoder, *options, "--mix", "labeled=1,unlabeled=2,augmented=1")
    assert record is not None
    assert [card.name for card in record.transfer] == ["unlabeled", "augmented"]
    assert "all words by the nearest word vectors" in record.transfer[1].origin
    (stage,) = record.model("distil").stages
    assert "90 unlabeled (50%)" in stage.description
    assert stage.examples == record.task.rows["train"] + sum(card.rows for card in record.transfer)


def test_a_teacher_that_is_only_its_outputs(
    tmp_path: Path, reviews: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"text": example.text, "logits": {"positive": 4 * example.label - 2, "negative": 0}}
        for split in ("train", "evaluate")
        for example in load_task(str(reviews)).splits[split]
    ]
    outputs = tmp_path / "outputs.jsonl"
    outputs.write_text("\n".join(json.dumps(row) for row in rows[2:]) + "\n")
    _, said = _run(capsys, tmp_path, reviews, encoder, "--teacher-outputs", outputs, code=2)
    assert "lacks 2 of 192 texts of the training split" in said
    record, _ = _run(capsys, tmp_path, reviews, encoder, "--teacher-outputs", outputs, "--allow-missing")
    assert record is not None
    assert not (tmp_path / "runs" / "teachers").exists()
    assert [card.role for card in record.models] == ["teacher", "student", "baseline"]
    assert (record.model("teacher").quality.value, record.model("teacher").speed) == (1.0, None)
    assert record.model("tiny").quality.retained is not None
    assert [set(stage.losses) for stage in record.model("tiny").stages] == [{"soft", "hard"}]
    logits = np.load(tmp_path / "runs" / "mine" / "teacher" / "labeled" / "logits.npy")
    assert np.isnan(logits).any(axis=1).sum() == 2
    assert "only its outputs" in (tmp_path / "reports" / "mine.html").read_text(encoding="utf-8")
