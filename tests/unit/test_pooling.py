"""Heads that read the mean or the maximum of all states: formula, padding, folders, students of such teachers."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from families import KINDS, tiny_config
from torch import Tensor
from toy import toy_task
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    BertForSequenceClassification,
    BertModel,
    BertTokenizerFast,
    DebertaV2Config,
    ModernBertConfig,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from common.architectures import register_architectures
from common.artifact import load, save, verify
from common.card import CardText
from common.errors import UserError
from common.pooled import PREFIX, pooled_configuration, pooling_of
from common.pooling import pool
from distill.flops import flops, flops_by_hand
from students.build import build_student
from students.presets import STUDENTS, student_preset
from teacher.sources import load_for_task

CARD = CardText(title="pooled", description="A small encoder.", task="toy")


def _config(kind: str) -> PretrainedConfig:
    if kind == "deberta-v2":
        return DebertaV2Config(
            vocab_size=120, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
        )
    return tiny_config(kind)


def _pooled(config: PretrainedConfig, pooling: str) -> PreTrainedModel:
    register_architectures()
    model = AutoModelForSequenceClassification.from_config(pooled_configuration(config, pooling, num_labels=3))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)  # such that pooled states differ from each other and from [CLS]'s
    return model.eval()


def _batch() -> tuple[Tensor, Tensor]:
    ids = torch.randint(5, 100, (2, 7))
    return ids, torch.tensor([[1] * 7, [1] * 4 + [0] * 3])


def test_the_mean_and_the_maximum_are_over_the_real_pieces() -> None:
    states, mask = torch.randn(2, 7, 5), _batch()[1]
    for row, length in enumerate((7, 4)):
        assert torch.allclose(pool(states, mask, "mean")[row], states[row, :length].sum(0) / length, atol=1e-6)
        assert torch.equal(pool(states, mask, "max")[row], states[row, :length].max(0).values)
        assert torch.equal(pool(states, mask, "cls")[row], states[row, 0])
    assert torch.allclose(pool(states, None, "mean"), states.mean(1), atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "max"])
@pytest.mark.parametrize("kind", [*KINDS, "deberta-v2"])
def test_padding_changes_nothing_and_the_head_is_the_familys_own(kind: str, pooling: str) -> None:
    model: Any = _pooled(_config(kind), pooling)
    ids, mask = _batch()
    with torch.no_grad():
        both = model(input_ids=ids, attention_mask=mask)
        alone = model(input_ids=ids[1:, :4], attention_mask=mask[1:, :4])
        config = _config(kind)
        config.num_labels = 3
        plain = AutoModelForSequenceClassification.from_config(config).eval()
        plain.load_state_dict(model.state_dict())
        single = model(input_ids=ids[:, :1]).logits  # of one piece, every pooling is that piece
        assert torch.allclose(single, plain(input_ids=ids[:, :1]).logits, atol=1e-5)
        assert not torch.allclose(both.logits, plain(input_ids=ids, attention_mask=mask).logits, atol=1e-3)
    assert torch.allclose(both.logits[1:], alone.logits, atol=1e-4)
    loss = model(input_ids=ids, attention_mask=mask, labels=torch.tensor([0, 2])).loss
    expected = torch.nn.functional.cross_entropy(both.logits, torch.tensor([0, 2]))
    assert torch.allclose(loss, expected, atol=1e-5)


def test_a_pooled_folder_gives_the_same_answers_and_no_plain_class_takes_it(
    tiny_bert: Callable[..., PreTrainedModel],
    tiny_tokenizer: BertTokenizerFast,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = _pooled(tiny_bert().config, "mean")
    save(model, tiny_tokenizer, tmp_path / "model", card=CARD)
    ids, mask = _batch()
    verify(tmp_path / "model", model, {"input_ids": ids, "attention_mask": mask})
    assert pooling_of(load(tmp_path / "model")[0].config) == "mean"
    config = AutoConfig.from_pretrained(tmp_path / "model")
    assert config.model_type == PREFIX + "bert"
    assert "register_architectures()" in (tmp_path / "model" / "README.md").read_text()
    # As in a process that knows transformers alone.
    monkeypatch.setattr(CONFIG_MAPPING, "_extra_content", {})
    with pytest.raises(ValueError, match="does not recognize this architecture"):
        AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_an_encoder_gets_a_head_with_the_pooling_and_keeps_its_weights(
    pooling: str, tiny_bert: Callable[..., Any], tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    encoder = tiny_bert(model_class=BertModel)
    encoder.save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    loaded = load_for_task(str(tmp_path), toy_task(), 0, pooling=pooling)
    assert pooling_of(loaded.model.config) == pooling
    assert loaded.model.config.id2label == {0: "a", 1: "b", 2: "c"}
    assert not loaded.finetuned
    for name, tensor in encoder.state_dict().items():
        assert torch.equal(loaded.model.base_model.state_dict()[name], tensor), name
    plain = load_for_task(str(tmp_path), toy_task(), 0).model
    assert torch.equal(loaded.model.classifier.weight, plain.classifier.weight)


@pytest.mark.parametrize("name", STUDENTS)
def test_students_pool_as_their_teacher_and_load_again(
    name: str, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    teacher = _pooled(tiny_bert(layers=2).config, "mean")
    student = build_student(student_preset(name, teacher.config), teacher, seed=1)
    assert pooling_of(student.config) == "mean"
    save(student, tiny_tokenizer, tmp_path / "student", card=CARD)
    ids, mask = _batch()
    verify(tmp_path / "student", student, {"input_ids": ids, "attention_mask": mask})
    assert flops(student, length=16) == pytest.approx(flops_by_hand(student.config, length=16), rel=0.1)


def test_a_student_with_all_of_its_teachers_layers_is_its_teacher(tiny_bert: Callable[..., PreTrainedModel]) -> None:
    """Cut to its teacher's own shape nothing is lost: the head reads the same pooled state."""
    teacher = _pooled(tiny_bert().config, "mean")
    config = student_preset("tiny", teacher.config)
    whole = teacher.config
    same = type(config)(
        name="same",
        family="bert",
        layers=whole.num_hidden_layers,
        hidden=whole.hidden_size,
        heads=whole.num_attention_heads,
        ffn=whole.intermediate_size,
        teacher_layers=tuple(range(whole.num_hidden_layers)),
        start="prune",
    )
    student = build_student(same, teacher, seed=0)
    ids, mask = _batch()
    with torch.no_grad():
        ours, theirs = (model(input_ids=ids, attention_mask=mask).logits for model in (student, teacher))
    assert torch.allclose(ours, theirs, atol=1e-4)


def test_a_pooled_albert_shares_what_it_is_to_share(tiny_bert: Callable[..., PreTrainedModel]) -> None:
    teacher = _pooled(tiny_bert(layers=2).config, "mean")
    config = dataclasses.replace(student_preset("albert", teacher.config), sharing="attention")
    student: Any = build_student(config, teacher, seed=0)
    first, second = (group.albert_layers[0] for group in student.albert.encoder.albert_layer_groups)
    assert first.attention is second.attention
    assert first.ffn is not second.ffn


def test_modernbert_has_a_mean_of_its_own_and_no_maximum() -> None:
    config = ModernBertConfig(vocab_size=120, hidden_size=32, num_hidden_layers=2, num_attention_heads=4)
    pooled = pooled_configuration(config, "mean", num_labels=3)
    assert (pooled.model_type, pooled.classifier_pooling, pooled.num_labels) == ("modernbert", "mean", 3)
    with pytest.raises(UserError, match=r"'max'.*modernbert"):
        pooled_configuration(config, "max")


def test_an_unknown_pooling_is_refused() -> None:
    with pytest.raises(UserError, match="mean"):
        pool(torch.zeros(1, 2, 3), None, "meen")


def test_plain_models_are_left_as_they_were(tiny_bert: Callable[..., PreTrainedModel]) -> None:
    teacher = tiny_bert()
    student = build_student(student_preset("tiny", teacher.config), teacher, seed=0)
    assert type(student) is BertForSequenceClassification
    assert student.config.model_type == "bert"


def test_pooling_is_refused_for_a_head_that_reads_every_piece(tmp_path: Path, tiny_bert: Callable[..., Any]) -> None:
    tiny_bert(model_class=BertModel).save_pretrained(tmp_path)
    task: Any = SimpleNamespace(head_kind="ForQuestionAnswering", head=dict)
    with pytest.raises(UserError, match="--teacher-pooling mean is for classes, numbers or labels of texts"):
        load_for_task(str(tmp_path), task, 0, pooling="mean")
