"""One attention function for all training: fast in both directions, and able to show its queries, keys and values.

The fused kernel is fast forward, but its backward pass on a CPU is not: with bf16 and short texts a training step of
a 6/384 BERT took 400 ms with it and 232 ms with plain matrix products. So passes that will be differentiated use the
plain form on a CPU, and all others the fused kernel. Attention scores before the softmax are in no model's output, and
asking for attention maps would turn the fused kernel off: `capture` records queries, keys and values as they pass.
DeBERTa has an attention of its own, which stays as it is; it is recorded too.
"""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from common.families import FAMILIES
from common.pooled import plain_type
from teacher.disentangled import Keep, watch
from teacher.dropout import drop

NAME = "plain_or_fused"

Seen = list[tuple[Tensor, Tensor, float, Tensor]]
"""Query, key (b, h, l, d_k), scaling and value (b, h, l, d_k) of every attention that ran, in order.

The scaling is NaN where scores are not products of queries and keys alone.
"""

_seen: contextvars.ContextVar[Seen | None] = contextvars.ContextVar("seen", default=None)


def use_training_attention(model: PreTrainedModel) -> None:
    """Let `model` use this attention. Calling it again is harmless; saved folders do not remember it."""
    watch(model, _keep)
    if not takes_functions(model):
        return
    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    model.set_attn_implementation(NAME)


@contextlib.contextmanager
def training_attention(model: PreTrainedModel) -> Iterator[None]:
    """Within the block `model` uses this attention; afterwards what it used before."""
    before = model.config._attn_implementation
    use_training_attention(model)
    try:
        yield
    finally:
        if takes_functions(model):
            model.set_attn_implementation(before)


def takes_functions(model: PreTrainedModel) -> bool:
    """Whether the model's attention is a function that can be set; DeBERTa's is not."""
    family = FAMILIES.get(plain_type(model.config))
    return family is None or family.scores


@contextlib.contextmanager
def capture() -> Iterator[Seen]:
    """Record queries, keys and values of every attention that runs in the block, in models that use this attention."""
    seen: Seen = []
    token = _seen.set(seen)
    try:
        yield seen
    finally:
        _seen.reset(token)


def _keep() -> Keep | None:
    seen = _seen.get()
    return None if seen is None else lambda *passed: seen.append(passed)


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    seen = _seen.get()
    if seen is not None:
        seen.append((query, key, scaling, value))
    if torch.is_grad_enabled() and query.device.type == "cpu" and not options.get("is_causal"):
        if attention_mask is None and getattr(module, "is_causal", False):
            # A batch without padding comes without the mask of causal attention too: the fused kernel has its own.
            attention_mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril()
        return _plain(query, key, value, attention_mask, scaling, dropout), None
    return sdpa_attention_forward(
        module, query, key, value, attention_mask, scaling=scaling, dropout=dropout, **options
    )


def _plain(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float, dropout: float) -> Tensor:
    """softmax(Q K^T scaling) V with a boolean mask (True: may be seen), as (b, l, h, d_k)."""
    scores = torch.matmul(query * scaling, key.transpose(-1, -2))
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = drop(scores.softmax(dim=-1), dropout) if dropout else scores.softmax(dim=-1)
    return torch.matmul(weights.to(value.dtype), value).transpose(1, 2).contiguous()
