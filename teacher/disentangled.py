"""DeBERTa's attention, which is its own and passes through no function that could be set: what can be seen of it.

Its scores are more than products of queries and keys: terms of relative positions are added. They are not offered.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.models.deberta.modeling_deberta import DisentangledSelfAttention as FirstAttention
from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention as SecondAttention

Keep = Callable[[Tensor, Tensor, float, Tensor], None]
"""Takes query, key (b, h, l, d_k), scaling and value of an attention that runs."""


def watch(model: PreTrainedModel, keep: Callable[[], Keep | None]) -> None:
    """Hand what every disentangled attention of `model` projects to `keep()`, wherever that is not None.

    Calling it again is harmless.
    """
    for module in model.modules():
        if isinstance(module, FirstAttention | SecondAttention) and not hasattr(module, "watched"):
            module.register_forward_pre_hook(_hook(keep), with_kwargs=True)
            cast(Any, module).watched = True


def stand_autocast(model: PreTrainedModel) -> None:
    """Let the first DeBERTa be computed under autocast: biases are added in the precision of what they are added to.

    In fp32 they would make the queries fp32 and leave the scores bf16, into which transformers then writes the least
    number of fp32. Other models are left as they are.
    """
    for module in model.modules():
        if isinstance(module, FirstAttention):
            cast(Any, module).transpose_for_scores = partial(_by_heads, module.num_attention_heads)


def _by_heads(heads: int, states_bld: Tensor) -> Tensor:
    """(b, l, heads x d) as (b, heads, l, d), in autocast's precision where that is on."""
    kind = states_bld.device.type
    if torch.is_autocast_enabled(kind):
        states_bld = states_bld.to(torch.get_autocast_dtype(kind))
    return states_bld.unflatten(-1, (heads, -1)).permute(0, 2, 1, 3)


def _hook(keep: Callable[[], Keep | None]) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]:
    def look(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        kept = keep()
        if kept is not None:
            states = inputs[0] if inputs else named["hidden_states"]
            query, key, value = projections(module, states)
            kept(query, key, math.nan, value)

    return look


def projections(module: Any, states_bld: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value of the content, each (b, h, l, d_k), as the attention computes them."""
    heads = module.num_attention_heads
    if isinstance(module, FirstAttention):
        query, key, value = module.transpose_for_scores(module.in_proj(states_bld)).chunk(3, dim=-1)
        query_bias, value_bias = (
            module.transpose_for_scores(bias[None, None, :]) for bias in (module.q_bias, module.v_bias)
        )
        return query + query_bias, key, value + value_bias
    maps = (module.query_proj, module.key_proj, module.value_proj)
    query, key, value = (part(states_bld).unflatten(2, (heads, -1)).transpose(1, 2) for part in maps)
    return query, key, value
