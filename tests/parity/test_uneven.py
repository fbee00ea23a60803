"""Encoders of uneven shape where others are used: attention that is looked at, ONNX, int8; plain BERT as a case."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import BertForSequenceClassification, PreTrainedModel

from common.uneven import (
    UnevenBertConfig,
    UnevenBertForSequenceClassification,
    UnevenDistilBertConfig,
    UnevenDistilBertForSequenceClassification,
)
from distill.flops import random_batch
from students.export import export_onnx
from students.quantize import quantise
from students.runtime import OnnxModel
from teacher.attention import capture, training_attention

SHAPE = {"heads": [3, 1], "head_dim": 8, "intermediate_sizes": [24, 40]}


def uneven(family: str, vocabulary: int) -> PreTrainedModel:
    """Two layers of width 30, which is no multiple of a head."""
    common = {"vocab_size": vocabulary, "max_position_embeddings": 64, "num_labels": 3, "initializer_range": 0.3}
    torch.manual_seed(0)
    if family == "bert":
        sizes = {"hidden_size": 30, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40}
        return UnevenBertForSequenceClassification(UnevenBertConfig(**common, **sizes, **SHAPE)).eval()
    sizes = {"dim": 30, "n_layers": 2, "n_heads": 3, "hidden_dim": 40}
    return UnevenDistilBertForSequenceClassification(UnevenDistilBertConfig(**common, **sizes, **SHAPE)).eval()


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_attention_of_uneven_heads_can_be_looked_at(family: str) -> None:
    model = uneven(family, 90)
    batch = random_batch(model, batch=2, length=7)
    with torch.no_grad(), training_attention(model), capture() as seen:
        logits = model(**batch).logits
    model.set_attn_implementation("eager")
    with torch.no_grad():
        eager = model(**batch, output_attentions=True, output_hidden_states=True)
    assert [query.shape[1] for query, *_ in seen] == [3, 1]
    for (query, key, scaling, _), wanted in zip(seen, eager.attentions, strict=True):
        assert torch.allclose((query @ key.transpose(-1, -2) * scaling).softmax(-1), wanted, atol=1e-6)
    assert torch.allclose(logits, eager.logits, atol=1e-5)
    assert [states.shape[-1] for states in eager.hidden_states] == [30, 30, 30]


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_uneven_models_are_exported_and_quantised(family: str, tiny_tokenizer, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = uneven(family, len(tiny_tokenizer))
    exported = export_onnx(model, tiny_tokenizer, tmp_path / "onnx", max_length=32)
    assert exported.difference < 1e-4
    assert sum(count for name, count in exported.info.fused.items() if "Attention" in name) == 2
    quantise(tmp_path / "onnx", tmp_path / "int8")
    batch = random_batch(model, batch=3, length=9)
    arrays = {name: tensor.numpy() for name, tensor in batch.items()}
    arrays["token_type_ids"] = 0 * arrays["input_ids"]
    with torch.no_grad():
        wanted = model(**batch).logits.numpy()
    assert OnnxModel(tmp_path / "onnx").logits(arrays) == pytest.approx(wanted, abs=1e-4)
    assert abs(OnnxModel(tmp_path / "int8").logits(arrays) - wanted).max() < 0.2 * abs(wanted).max()


def test_the_same_sizes_in_every_layer_are_a_plain_bert(tiny_bert: Callable[..., PreTrainedModel]) -> None:
    plain = tiny_bert()
    settings = {name: value for name, value in plain.config.to_dict().items() if name != "model_type"}
    shape = {"heads": [4, 4], "head_dim": 8, "intermediate_sizes": [128, 128]}
    own = UnevenBertForSequenceClassification(UnevenBertConfig(**settings, **shape)).eval()
    own.load_state_dict(plain.state_dict())
    batch = random_batch(plain, batch=3, length=9)
    assert isinstance(own, BertForSequenceClassification)
    assert torch.equal(own(**batch).logits, plain(**batch).logits)


@pytest.mark.parametrize("sizes", [[3], [3, 0], None])
def test_a_configuration_without_a_size_for_each_layer_is_refused(sizes: list[int] | None) -> None:
    config = UnevenBertConfig(vocab_size=90, hidden_size=30, num_hidden_layers=2, **SHAPE | {"heads": sizes})
    with pytest.raises(ValueError, match="for each of 2 layers"):
        UnevenBertForSequenceClassification(config)
