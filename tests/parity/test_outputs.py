"""What is captured beside the fused attention equals what transformers' eager attention gives."""

import contextlib

import pytest
import torch
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    PreTrainedModel,
)

from distill.outputs import features
from teacher.attention import use_training_attention
from teacher.prepare import model_inputs

SIZES = {"vocab_size": 50, "max_position_embeddings": 32}


def _model(family: str) -> PreTrainedModel:
    torch.manual_seed(0)
    if family == "bert":
        shape = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 48}
        return BertForSequenceClassification(BertConfig(**SIZES, **shape)).eval()
    if family == "albert":
        shape = {
            "hidden_size": 24,
            "num_hidden_layers": 3,
            "num_attention_heads": 3,
            "intermediate_size": 48,
            "embedding_size": 8,
        }
        return AlbertForSequenceClassification(AlbertConfig(**SIZES, **shape)).eval()
    return DistilBertForSequenceClassification(
        DistilBertConfig(**SIZES, dim=24, n_layers=3, n_heads=3, hidden_dim=48)
    ).eval()


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("family", ["bert", "albert", "distilbert"])
def test_scores_and_states_equal_the_eager_network(family: str, plain: bool) -> None:
    model = _model(family)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)  # scores far from uniform
    lengths = torch.tensor([7, 4])
    mask = (torch.arange(7)[None, :] < lengths[:, None]).long()
    batch = {
        "input_ids": torch.randint(5, 50, (2, 7)),
        "attention_mask": mask,
        "token_type_ids": torch.zeros(2, 7, dtype=torch.int64),
    }
    model.set_attn_implementation("eager")
    with torch.no_grad():
        eager = model(**model_inputs(model, batch), output_hidden_states=True, output_attentions=True)
    use_training_attention(model)
    use_training_attention(model)
    with contextlib.nullcontext() if plain else torch.no_grad():
        captured = features(model, batch, hidden=True, attention=True)
    valid = mask.bool()
    assert len(captured.attention) == 3
    assert torch.allclose(captured.logits, eager.logits, atol=1e-5)
    for own, other in zip(captured.hidden, eager.hidden_states, strict=True):
        assert torch.allclose(own[valid], other[valid], atol=1e-5)
    for layer, attention in enumerate(eager.attentions, start=1):
        scores = captured.scores(layer).masked_fill(~valid[:, None, None, :], -torch.inf)
        rows = valid[:, None, :].expand(-1, 3, -1)
        assert torch.allclose(scores.softmax(-1)[rows], attention[rows], atol=1e-6)


def test_nothing_is_kept_outside_of_features() -> None:
    model = _model("bert")
    use_training_attention(model)
    batch = {"input_ids": torch.randint(5, 50, (1, 4)), "attention_mask": torch.ones(1, 4, dtype=torch.int64)}
    assert (
        features(
            model, batch | {"token_type_ids": torch.zeros(1, 4, dtype=torch.int64)}, hidden=False, attention=False
        ).attention
        == ()
    )
    plain = model(**batch)
    assert plain.attentions is None
    assert plain.hidden_states is None


def test_gradients_equal_those_of_the_eager_network() -> None:
    model = _model("bert")
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    batch = {"input_ids": torch.randint(5, 50, (2, 5)), "attention_mask": mask}
    gradients = []
    for implementation in ("eager", None):
        if implementation is None:
            use_training_attention(model)
        else:
            model.set_attn_implementation(implementation)
        model.zero_grad()
        model(**batch).logits.square().sum().backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*gradients, strict=True))
