"""The classifier on left-to-right encoders reads the last piece, which has seen the others."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from toy import toy_task
from transformers import BertForSequenceClassification, BertLMHeadModel, BertTokenizerFast, PreTrainedModel

from common.errors import UserError
from teacher.ablation_answers import load_encoder
from teacher.continued import load_continued
from teacher.last_state import LastStateClassifier
from teacher.prepare import model_inputs
from teacher.sources import load_for_task


@pytest.fixture
def folder(tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast) -> Path:
    """A left-to-right encoder with its language-modelling head."""
    tiny_bert(model_class=BertLMHeadModel, is_decoder=True, initializer_range=0.3).save_pretrained(tmp_path / "ltr")
    tiny_tokenizer.save_pretrained(tmp_path / "ltr")
    return tmp_path / "ltr"


@torch.inference_mode()
def test_it_is_bert_with_the_last_state_in_the_place_of_the_first(folder: Path) -> None:
    loaded = load_encoder(folder, toy_task(), seed=3)
    model = loaded.model.eval()
    assert isinstance(model, LastStateClassifier)
    texts = ["good film", "the plot of this great film"]
    batch = loaded.tokenizer(texts, padding=True, return_tensors="pt")
    found = model(**model_inputs(model, batch)).logits
    for row, text in enumerate(texts):
        alone = loaded.tokenizer(text, return_tensors="pt")
        states = model.bert(**alone).last_hidden_state
        pooled = torch.tanh(model.bert.pooler.dense(states[0, -1]))
        torch.testing.assert_close(found[row], model.classifier(pooled), atol=1e-5, rtol=0)


@torch.inference_mode()
def test_the_first_state_would_see_nothing_and_the_last_sees_all(folder: Path) -> None:
    loaded = load_encoder(folder, toy_task(), seed=3)
    one, other = (loaded.tokenizer(text, return_tensors="pt") for text in ("good film plot", "bad film plot"))
    usual = BertForSequenceClassification.from_pretrained(folder, num_labels=3).eval()
    torch.testing.assert_close(usual(**one).logits, usual(**other).logits)
    model = loaded.model.eval()
    assert not torch.allclose(model(**one).logits, model(**other).logits, atol=1e-4)


def test_the_new_head_follows_from_the_seed(folder: Path) -> None:
    weights = [load_encoder(folder, toy_task(), seed=seed).model.classifier.weight for seed in (3, 3, 4)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_what_reads_another_state_refuses_it(folder: Path) -> None:
    with pytest.raises(UserError, match=r"ltr cannot learn a task: it reads left to right .* teacher\.ablate compares"):
        load_for_task(str(folder), toy_task(), seed=3)
    with pytest.raises(UserError, match=r"--from .*ltr cannot learn masked pieces: it reads left to right"):
        load_continued(str(folder), seed=3, length=16)
