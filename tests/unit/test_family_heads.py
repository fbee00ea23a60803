"""Heads of every family: new ones are found, labels reordered, numbers trained in standardised units."""

import importlib.util
from pathlib import Path

import pytest
import torch
from families import TEACHERS, tiny_classifier, tiny_config
from toy import toy_task
from transformers import AutoModel, BertTokenizerFast, PreTrainedModel

from common.artifact import CardText, load, save
from common.errors import UserError
from common.output_layer import output_layer
from teacher.head import StandardisedHead, standardised_head
from teacher.prepare import predict_logits, prepare
from teacher.sources import load_for_task, tokenizer_in


def _folder(model: PreTrainedModel, tokenizer: BertTokenizerFast, folder: Path) -> str:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("kind", TEACHERS)
def test_an_encoder_gets_a_new_head_drawn_from_the_seed(
    kind: str, tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    model = AutoModel.from_config(tiny_config(kind))
    where = _folder(model, tiny_tokenizer, tmp_path)
    first, again, other = (load_for_task(where, toy_task(), seed=seed) for seed in (1, 1, 2))
    assert not first.finetuned
    weights = [output_layer(loaded.model).weight for loaded in (first, again, other)]
    assert weights[0].shape[0] == 3
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    for name, tensor in first.model.base_model.state_dict().items():
        if "pooler" not in name:
            torch.testing.assert_close(tensor, model.state_dict()[name], rtol=0, atol=0)


@pytest.mark.parametrize("kind", TEACHERS)
def test_a_classifiers_outputs_follow_the_order_of_the_data(
    kind: str, tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    names = {0: "c", 1: "a", 2: "b"}
    model = tiny_classifier(kind, id2label=names, label2id={name: place for place, name in names.items()})
    task = toy_task(texts=("good film", "the plot is boring"))
    save(model, tiny_tokenizer, tmp_path / "model", card=CardText(title="", description="", task="toy"))
    loaded = load_for_task(str(tmp_path / "model"), task, seed=0)
    assert loaded.finetuned
    assert loaded.model.config.id2label == {0: "a", 1: "b", 2: "c"}
    prepared = prepare(task, tiny_tokenizer, 32)
    before, after = (predict_logits(each, prepared, "select") for each in (model, loaded.model))
    torch.testing.assert_close(torch.tensor(after), torch.tensor(before)[:, [1, 2, 0]])
    reloaded, _ = load(tmp_path / "model")
    assert (predict_logits(reloaded, prepared, "select") == before).all()


@pytest.mark.parametrize("kind", TEACHERS)
def test_numbers_are_trained_in_standardised_units_and_answered_in_their_own(
    kind: str, tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    task = toy_task("regression", texts=("good film", "the plot is boring"))
    where = _folder(AutoModel.from_config(tiny_config(kind)), tiny_tokenizer, tmp_path)
    model = load_for_task(where, task, seed=0).model
    prepared = prepare(task, tiny_tokenizer, 32)
    plain = predict_logits(model, prepared, "select")
    with standardised_head(model, task):
        assert any(isinstance(module, StandardisedHead) for module in model.modules())
        torch.testing.assert_close(torch.tensor(predict_logits(model, prepared, "select")), torch.tensor(plain))
    assert not any(isinstance(module, StandardisedHead) for module in model.modules())
    rounded = predict_logits(model, prepared, "select", precision="bf16")
    torch.testing.assert_close(torch.tensor(rounded), torch.tensor(plain), rtol=0, atol=0.1)
    torch.testing.assert_close(torch.tensor(predict_logits(model, prepared, "select")), torch.tensor(plain))


@pytest.mark.parametrize("kind", ["roberta", "electra", "deberta-v2", "modernbert"])
def test_a_classifier_without_its_head_is_refused(kind: str, tiny_tokenizer: BertTokenizerFast, tmp_path: Path) -> None:
    model = AutoModel.from_config(tiny_config(kind))
    model.config.architectures = [type(tiny_classifier(kind)).__name__]
    model.config.id2label = dict(enumerate("abc"))
    where = _folder(model, tiny_tokenizer, tmp_path)
    config = (tmp_path / "config.json").read_text(encoding="utf-8")
    name = type(tiny_classifier(kind)).__name__
    (tmp_path / "config.json").write_text(config.replace(type(model).__name__, name), encoding="utf-8")
    with pytest.raises(UserError, match="untrained head teaches nothing"):
        load_for_task(where, toy_task(), seed=0)


def test_a_tokenizer_that_takes_another_package_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_config("deberta-v2").save_pretrained(tmp_path)
    (tmp_path / "spm.model").write_bytes(b"no model")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "sentencepiece" else find(name))
    with pytest.raises(UserError, match=r"SentencePiece model.*distillery\[sentencepiece\]"):
        tokenizer_in(str(tmp_path))
