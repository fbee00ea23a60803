"""Hidden states cast once for queries, keys and values: the same outputs, gradients to a rounding."""

import pytest
import torch
from torch import Tensor, nn
from transformers import AlbertConfig, AlbertModel, BertConfig, BertModel, DistilBertConfig, DistilBertModel

from teacher.shared_casts import cast_once

_SIZES = {"vocab_size": 50, "hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2}


def _model(kind: str) -> nn.Module:
    torch.manual_seed(1)
    if kind == "bert":
        return BertModel(BertConfig(**_SIZES, intermediate_size=64)).eval()
    if kind == "albert":
        return AlbertModel(AlbertConfig(**_SIZES, intermediate_size=64, embedding_size=16)).eval()
    return DistilBertModel(DistilBertConfig(vocab_size=50, dim=32, n_heads=2, n_layers=2, hidden_dim=64)).eval()


def _run(model: nn.Module) -> tuple[Tensor, dict[str, Tensor]]:
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        states = model(input_ids=torch.arange(24).view(2, 12)).last_hidden_state
    states.float().square().mean().backward()
    gradients = {name: entry.grad.clone() for name, entry in model.named_parameters() if entry.grad is not None}
    return states.detach(), gradients


@pytest.mark.parametrize("kind", ["bert", "albert", "distilbert"])
def test_outputs_are_the_same_bits(kind: str) -> None:
    model = _model(kind)
    states, gradients = _run(model)
    first = next(part for part in model.modules() if hasattr(part, "query") or hasattr(part, "q_lin"))
    with cast_once(model):
        # ALBERT's attention adds its input to its output, which keeps its precision.
        assert len(first._forward_pre_hooks) == (kind != "albert")
        cast_states, cast_gradients = _run(model)
    assert not first._forward_pre_hooks
    assert torch.equal(cast_states, states)
    assert cast_gradients.keys() == gradients.keys()
    for name, gradient in gradients.items():
        atol = 2e-2 * float(gradient.abs().max()) + 1e-6
        torch.testing.assert_close(cast_gradients[name], gradient, rtol=0, atol=atol)


def test_projections_get_bf16_in_the_block_and_under_autocast_alone() -> None:
    model = _model("bert")
    seen: list[torch.dtype] = []
    model.encoder.layer[0].attention.self.key.register_forward_pre_hook(lambda _, given: seen.append(given[0].dtype))
    with cast_once(model):
        model(input_ids=torch.arange(6)[None])
        _run(model)
    _run(model)
    assert seen == [torch.float32, torch.bfloat16, torch.float32]
