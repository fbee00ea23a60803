"""The main command with augmented texts, unlabelled texts, and mixtures of them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from e2e.conftest import FILLER, kill_when, run
from e2e.test_run import options_for
from transformers import BertForPreTraining, PreTrainedModel

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


def test_augmented_stages_train_on_the_teachers_answers_to_new_texts(
    tmp_path: Path, reviews: Path, masked_encoder: Path
) -> None:
    options = [*options_for(tmp_path, reviews, masked_encoder), "--student", "tiny", "--augment", "1"]
    output = run(*options)
    assert "masked language model of masked" in output
    folder = tmp_path / "runs" / "reviews-tiny"
    record = Record.load(folder / "record.json")
    examples = read_examples(folder / "transfer" / "augmented")
    train = load_task(str(reviews)).splits["train"]
    originals = [(example.text, example.pair) for example in train]
    texts = [(example.text, example.pair) for example in examples]
    assert len(set(texts)) == len(texts) == record.transfer[0].rows
    assert len(train) < len(texts) <= 2 * len(train)
    assert [text for text in texts if text in set(originals)] == originals
    logits = np.load(folder / "teacher" / "augmented" / "logits.npy")
    labeled = np.load(folder / "teacher" / "labeled" / "logits.npy")
    assert np.allclose(logits[[texts.index(text) for text in originals]], labeled, atol=1e-4)
    stages = {stage.name: stage for stage in record.model("tiny").stages}
    assert stages["intermediate"].examples == stages["prediction"].examples == len(texts)
    assert record.model("tiny without distillation").stages[0].steps == pytest.approx(
        stages["intermediate"].steps + stages["prediction"].steps, abs=2
    )
    page = (tmp_path / "reports" / "reviews-tiny.html").read_text(encoding="utf-8")
    assert record.transfer[0].preview[0].versions[0] in page


def test_a_mixture_is_distilled_on_and_resumed_without_augmenting_again(
    tmp_path: Path, reviews: Path, encoder: Path
) -> None:
    more = tmp_path / "more.txt"
    more.write_text("\n".join(f"the {FILLER[index % 6]} number {index}" for index in range(90)) + "\n")
    options = [*options_for(tmp_path, reviews, encoder), "--student", "distil", "--no-twins", "--name", "mixed"]
    options += ["--unlabeled", more, "--augment", "1", "--mix", "labeled=1,unlabeled=2,augmented=1"]
    folder = tmp_path / "runs" / "mixed"
    kill_when(folder / "distil" / "seed-0" / "distil", "step-*/state.json", *options, "--checkpoint-every", "2")
    written = folder / "transfer" / "augmented" / "examples.jsonl"
    before = written.stat().st_mtime_ns
    output = run(*options, "--checkpoint-every", "2", "--resume")
    assert "augment: reusing" in output
    assert written.stat().st_mtime_ns == before
    record = Record.load(folder / "record.json")
    assert [(card.name, card.rows >= 90) for card in record.transfer] == [("unlabeled", True), ("augmented", True)]
    assert "all words by the nearest word vectors" in record.transfer[1].origin
    (stage,) = record.model("distil").stages
    assert "90 unlabeled (50%)" in stage.description
    assert stage.examples == record.task.rows["train"] + sum(card.rows for card in record.transfer)
