"""Pruning, trimming and quantising in every order that makes sense, over shapes and ratios; others are refused."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from families import tiny_config
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy
from toy import toy_task
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from common.artifact import CardText, load, save
from common.errors import UserError
from distill.compress import checked_model
from students.export import export_onnx
from students.prune import pruned
from students.pruned_shape import shape_of
from students.quantize import quantise
from students.quantize_torch import torch_int8
from students.ranking import PARTS
from students.runtime import OnnxModel
from students.vocabulary import trim_vocabulary

TEXTS = ["a good film", "the plot is not very funny", "poor music and a boring actor", "great play"]
FAMILIES = ("bert", "roberta", "electra", "distilbert")
Pair = tuple[PreTrainedModel, Any]
"""A model and its tokenizer."""

HALF = {"share": 0.5, "parts": ["ffn"], "even": False, "importance": "taylor"}
shapes = st.fixed_dictionaries(
    {
        "family": st.sampled_from(FAMILIES),
        "layers": st.integers(1, 3),
        "heads": st.integers(1, 4),
        "head_dim": st.sampled_from([2, 5, 8]),
        "ffn": st.integers(3, 40),
    }
)
prunings = st.fixed_dictionaries(
    {
        "share": st.floats(0.05, 0.8),
        "parts": st.sets(st.sampled_from(PARTS), min_size=1),
        "even": st.booleans(),
        "importance": st.sampled_from(["taylor", "magnitude", "random"]),
    }
)
orders = st.lists(st.one_of(prunings, st.just("trim")), min_size=1, max_size=3)
"""Steps in torch, in turn: a pruning, or a trimming."""


def model_of(shape: Mapping[str, Any], vocabulary: int) -> PreTrainedModel:
    config = tiny_config(shape["family"], vocabulary)
    config.num_labels, config.pad_token_id = 3, 0
    config.hidden_size = shape["heads"] * shape["head_dim"]
    config.num_attention_heads, config.num_hidden_layers = shape["heads"], shape["layers"]
    setattr(config, "hidden_dim" if shape["family"] == "distilbert" else "intermediate_size", shape["ffn"])
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def batch_of(tokenizer: Any) -> dict[str, Tensor]:
    encoded = tokenizer(TEXTS, padding=True, return_tensors="pt")
    return {name: encoded[name] for name in ("input_ids", "attention_mask")}


def logits(model: PreTrainedModel, tokenizer: Any) -> Tensor:
    with torch.no_grad():
        found = model(**batch_of(tokenizer)).logits
    assert torch.isfinite(found).all()
    return found


def prune(pair: Pair, how: Mapping[str, Any]) -> Pair:
    """The pruned model; the model itself where so much cannot go."""
    model, tokenizer = pair
    batch = batch_of(tokenizer) | {"labels": torch.tensor([0, 1, 2, 1])}
    whole = shape_of(model).encoder_parameters
    try:
        smaller, _ = pruned(
            model,
            [batch],
            lambda one: cross_entropy(model(**batch_of(tokenizer)).logits, one["labels"]),
            cost=lambda shape: shape.encoder_parameters,
            most=(1 - how["share"]) * whole,
            **{name: how[name] for name in ("parts", "even", "importance")},
        )
    except UserError as error:
        assert "can go with these parts" in str(error)
        return pair
    assert shape_of(smaller).encoder_parameters <= (1 - how["share"]) * whole
    return smaller, tokenizer


def trim(pair: Pair) -> Pair:
    """The trimmed model, which answers the texts as before, bit for bit."""
    trimmed = trim_vocabulary(*pair, TEXTS)
    assert torch.equal(logits(trimmed.model, trimmed.tokenizer), logits(*pair))
    return trimmed.model, trimmed.tokenizer


def after(pair: Pair, order: list[Any]) -> Pair:
    for step in order:
        pair = trim(pair) if step == "trim" else prune(pair, step)
    return pair


def saved(pair: Pair, folder: Path) -> Pair:
    """The same from its folder."""
    save(*pair, folder, card=CardText(title="a model", description="A test.", task="toy"))
    return load(folder)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(shape=shapes, order=orders)
def test_any_order_in_torch_reloads_bit_for_bit_and_becomes_int8(
    shape: dict[str, Any], order: list[Any], tiny_tokenizer: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pair = after((model_of(shape, len(tiny_tokenizer)), tiny_tokenizer), order)
    again = saved(pair, tmp_path_factory.mktemp("orders") / "model")
    assert torch.equal(logits(*pair), logits(*again))
    int8, reloaded = torch_int8(pair[0]), torch_int8(again[0])
    assert torch.equal(logits(int8, pair[1]), logits(reloaded, again[1]))


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(shape=shapes, order=orders, bits=st.sampled_from([4, 8, 32]), method=st.sampled_from(["dynamic", "static"]))
def test_any_order_goes_on_to_onnx_and_its_int8(
    shape: dict[str, Any],
    order: list[Any],
    bits: int,
    method: str,
    tiny_tokenizer: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    pytest.importorskip("onnxruntime")
    pair = after((model_of(shape, len(tiny_tokenizer)), tiny_tokenizer), order)
    folder = tmp_path_factory.mktemp("orders")
    arrays = {name: tensor.numpy() for name, tensor in batch_of(pair[1]).items()}
    arrays["token_type_ids"] = 0 * arrays["input_ids"]
    export_onnx(*pair, folder / "onnx", max_length=16, pairs=False)
    quantise(folder / "onnx", folder / "int8", method=method, embedding_bits=bits, calibration=[arrays])
    plain, int8 = (OnnxModel(folder / name).logits(arrays) for name in ("onnx", "int8"))
    assert plain == pytest.approx(logits(*pair).numpy(), abs=1e-4 * max(1.0, float(np.abs(plain).max())))
    assert np.isfinite(int8).all()
    assert np.array_equal(int8, OnnxModel(folder / "int8").logits(arrays))
    with pytest.raises(UserError, match=r"is int8 .* already"):
        quantise(folder / "int8", folder / "twice")


@pytest.mark.parametrize(
    ("doing", "words"),
    [
        (
            lambda pair, folder: prune(pair, HALF),
            "pruned",
        ),
        (lambda pair, folder: trim(pair), "trimmed"),
        (lambda pair, folder: torch_int8(pair[0]), "quantised again"),
        (lambda pair, folder: export_onnx(*pair, folder / "onnx", max_length=16), "exported"),
        (saved, "saved"),
    ],
)
def test_nothing_follows_torchs_int8(
    doing: Callable[[Pair, Path], Any], words: str, tiny_bert: Any, tiny_tokenizer: Any, tmp_path: Path
) -> None:
    int8 = torch_int8(tiny_bert())
    with pytest.raises(UserError, match=f"8-bit integers cannot be {words}: .* take the fp32 model"):
        doing((int8, tiny_tokenizer), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_an_exported_model_does_not_go_through_a_chain_again(tmp_path: Path) -> None:
    for name in ("config.json", "onnx.json"):
        (tmp_path / name).write_text("{}", encoding="utf-8")
    with pytest.raises(UserError, match=r"--model .* is an ONNX folder.*give the torch folder"):
        checked_model(str(tmp_path), toy_task(), "--model")
