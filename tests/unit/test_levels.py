"""Rates by depth: factors in closed form for the parameters of every family, and that steps are taken with them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from families import KINDS, tiny_config
from toy import toy_task
from transformers import (
    AutoModelForSequenceClassification,
    BertForSequenceClassification,
    BertTokenizerFast,
    DebertaV2Config,
    ModernBertConfig,
    PretrainedConfig,
)

from common.errors import UserError
from teacher.levels import rate_shares
from teacher.loop import parameter_groups
from teacher.options import FinetuneOptions
from teacher.practice import loop_config
from teacher.prepare import prepare
from teacher.rows import only_rows
from teacher.supervised import finetune

_MORE = {"vocab_size": 120, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
LATER = {
    "deberta-v2": lambda: DebertaV2Config(
        **_MORE, intermediate_size=64, relative_attention=True, norm_rel_ebd="layer_norm", conv_kernel_size=3
    ),
    "modernbert": lambda: ModernBertConfig(**_MORE, intermediate_size=64, pad_token_id=0),
}
HEADS = ("classifier.", "pre_classifier.", "pooler.", "head.", "final_norm.")


def _config(kind: str) -> PretrainedConfig:
    return LATER[kind]() if kind in LATER else tiny_config(kind)


def _expected(name: str, layers: int, decay: float, head: float) -> float:
    """By other words than the code's: a name's part that is a number is its layer."""
    parts = name.split(".")
    inner = ".".join(parts[1:]) + "."
    if any(part in name + "." for part in HEADS) and "layer." not in name and "layers." not in name:
        return head
    numbers = [int(part) for part in parts if part.isdigit()]
    if numbers:
        return decay ** (layers - numbers[0])
    return decay**layers if inner.startswith("encoder.conv.") else decay ** (layers + 1)


@pytest.mark.parametrize("kind", [*KINDS, *LATER])
def test_each_layer_learns_at_a_share_of_the_one_above(kind: str) -> None:
    model = AutoModelForSequenceClassification.from_config(_config(kind))
    shares = rate_shares(model, decay=0.5, head=3.0)
    layers = 1 if kind == "albert" else 2  # ALBERT's layers are one
    found = {name: shares[parameter] for name, parameter in model.named_parameters()}
    assert found == {name: pytest.approx(_expected(name, layers, 0.5, 3.0)) for name in found}
    assert len(set(found.values())) == layers + 2


def test_the_table_of_occurring_rows_learns_as_the_embeddings(
    tiny_bert: Callable[..., BertForSequenceClassification],
) -> None:
    model = tiny_bert(layers=2)
    with only_rows(model, torch.arange(10)):
        assert rate_shares(model, decay=0.5)[model.get_input_embeddings().rows] == 0.125


def test_groups_hold_every_parameter_once_and_vectors_do_not_decay(
    tiny_bert: Callable[..., BertForSequenceClassification],
) -> None:
    model = tiny_bert(layers=2)
    shares = rate_shares(model, decay=0.5)
    groups = parameter_groups(model, 0.01, shares)
    held = [parameter for group in groups for parameter in group["params"]]
    assert len(held) == len(set(held)) == len(list(model.parameters()))
    for group in groups:
        for parameter in group["params"]:
            assert group["share"] == shares[parameter]
            assert (group["weight_decay"] == 0.01) == (parameter.ndim > 1)


def _step(
    options: FinetuneOptions,
    tiny_bert: Callable[..., BertForSequenceClassification],
    tokenizer: BertTokenizerFast,
    at: Path,
) -> dict[str, torch.Tensor]:
    """How far each parameter goes in one step: AdamW's first moves every weight with a gradient by about the rate."""
    model = tiny_bert(labels=3, layers=2)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    prepared = prepare(toy_task(), tokenizer, 16)
    finetune(model, prepared, loop_config(options, "fp32", 100), options, at)
    return {
        name: float((parameter.detach() - before[name]).abs().max()) for name, parameter in model.named_parameters()
    }


def test_a_step_goes_as_far_as_the_rate_of_its_level(
    tiny_bert: Callable[..., BertForSequenceClassification], tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    options = FinetuneOptions(
        teacher_learning_rate=1e-3, teacher_epochs=1, teacher_layer_decay=0.5, teacher_head_rate=4e-3
    )
    moved = _step(options, tiny_bert, tiny_tokenizer, tmp_path)
    wanted = {
        "classifier.bias": 4e-3,
        "bert.encoder.layer.1.output.dense.bias": 5e-4,
        "bert.encoder.layer.0.output.dense.bias": 2.5e-4,
        "bert.embeddings.LayerNorm.bias": 1.25e-4,
    }
    for name, rate in wanted.items():
        assert moved[name] == pytest.approx(rate, rel=0.05), name


def test_options_at_their_defaults_do_not_decide() -> None:
    """Keys of teachers that were fine-tuned before an option came stay what they were."""
    assert list(FinetuneOptions().deciding()) == [
        "teacher_learning_rate",
        "teacher_epochs",
        "teacher_batch",
        "teacher_batch_tokens",
        "teacher_patience",
        "teacher_seed",
    ]
    assert FinetuneOptions(teacher_layer_decay=0.9).deciding()["teacher_layer_decay"] == 0.9


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"teacher_layer_decay": 0.0}, "--teacher-layer-decay 0.0"),
        ({"teacher_layer_decay": 1.1}, "--teacher-layer-decay 1.1"),
        ({"teacher_head_rate": -1.0}, "--teacher-head-rate -1.0"),
    ],
)
def test_rates_that_make_no_sense_are_refused(options: dict[str, float], named: str) -> None:
    with pytest.raises(UserError, match=named):
        FinetuneOptions(**options)
