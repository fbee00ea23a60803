"""FLOPs: torch's counter, on eager attention, equals the formula exactly, and the formula the published figures."""

import pytest
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from common.errors import UserError
from distill.flops import flops, flops_by_hand

SIZES = {"vocab_size": 100, "num_labels": 5, "max_position_embeddings": 40}
FAMILIES: list[tuple[type[PreTrainedModel], PretrainedConfig]] = [
    (
        BertForSequenceClassification,
        BertConfig(hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=40, **SIZES),
    ),
    (DistilBertForSequenceClassification, DistilBertConfig(dim=24, n_layers=2, n_heads=3, hidden_dim=56, **SIZES)),
    (
        AlbertForSequenceClassification,
        AlbertConfig(
            hidden_size=32, embedding_size=8, num_hidden_layers=4, num_attention_heads=2, intermediate_size=48, **SIZES
        ),
    ),
]


@pytest.mark.parametrize(("model_class", "config"), FAMILIES, ids=lambda value: getattr(value, "model_type", ""))
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize(("batch", "length"), [(1, 1), (1, 17), (3, 40)])
def test_counted_equals_by_hand(
    model_class: type[PreTrainedModel], config: PretrainedConfig, attention: str, batch: int, length: int
) -> None:
    model = model_class._from_config(config, attn_implementation=attention).train()
    assert flops(model, batch=batch, length=length) == flops_by_hand(config, batch=batch, length=length)
    assert model.config._attn_implementation == attention
    assert model.training


def test_published_sizes() -> None:
    tiny = BertConfig(
        hidden_size=312, num_hidden_layers=4, num_attention_heads=12, intermediate_size=1200, num_labels=2
    )
    # TinyBERT, table 1, at 128 tokens: 22.5 G for BERT-base and 1.2 G for TinyBERT4.
    assert flops_by_hand(BertConfig(num_labels=2)) == pytest.approx(22.5e9, rel=0.01)
    assert round(flops_by_hand(tiny) / 1e9, 1) == 1.2
    # 84.9 M encoder weights without biases and norms, the attention products, the head.
    by_count = 2 * 84_934_656 * 128 + 12 * 4 * 128**2 * 768 + 2 * 768**2 + 2 * 768 * 2
    assert flops_by_hand(BertConfig(num_labels=2)) == by_count


def test_too_long_and_unknown_family_are_refused() -> None:
    config = FAMILIES[0][1]
    with pytest.raises(UserError, match="length 41 asked of a model with 40 positions"):
        flops(BertForSequenceClassification(config), length=41)
    with pytest.raises(UserError, match="unknown model type for FLOPs by hand 'roberta'"):
        flops_by_hand(RobertaConfig())


def test_roberta_has_fewer_places_than_positions() -> None:
    config = RobertaConfig(
        hidden_size=24, num_hidden_layers=1, num_attention_heads=4, intermediate_size=40, pad_token_id=1, **SIZES
    )
    model = RobertaForSequenceClassification(config)
    assert flops(model, length=38) > 0
    with pytest.raises(UserError, match="38 positions"):
        flops(model, length=39)
