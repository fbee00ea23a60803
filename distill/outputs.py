"""What distillation looks at inside a model: logits, hidden states, and the queries and keys of chosen layers.

Attention scores before the softmax are in no model's output, and asking for attention maps turns off the fused kernel.
So a named attention function is registered with transformers that keeps query and key and then calls the fused one.
"""

import contextlib
import contextvars
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from distill.losses import attention_scores
from teacher.prepare import model_inputs

CAPTURING = "sdpa_capturing"

Seen = list[tuple[Tensor, Tensor, float]]
_seen: contextvars.ContextVar[Seen | None] = contextvars.ContextVar("seen", default=None)


def _capturing_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    seen = _seen.get()
    if seen is not None:
        seen.append((query, key, scaling if scaling is not None else query.shape[-1] ** -0.5))
    return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)


def enable_capture(model: PreTrainedModel) -> None:
    """Let `features` see this model's queries and keys. Nothing else about the model changes.

    Calling it again is harmless; saved folders do not remember it.
    """
    AttentionInterface.register(CAPTURING, _capturing_attention)
    AttentionMaskInterface.register(CAPTURING, sdpa_mask)
    model.set_attn_implementation(CAPTURING)


@contextlib.contextmanager
def _capture() -> Iterator[Seen]:
    seen: Seen = []
    token = _seen.set(seen)
    try:
        yield seen
    finally:
        _seen.reset(token)


@dataclass(frozen=True, kw_only=True)
class Features:
    """One forward pass. An ALBERT layer that is passed six times gives six entries."""

    logits: Tensor
    """(b, c)"""
    hidden: tuple[Tensor, ...]
    """Embedding output, then every layer: (b, l, d)."""
    attention: tuple[tuple[Tensor, Tensor, float], ...]
    """Query (b, h, l, d_k), key, scaling of every layer; empty where they were not asked for."""

    def scores(self, layer: int) -> Tensor:
        """Attention scores before the softmax of a layer, counted from 1: (b, h, l, l), fp32."""
        return attention_scores(*self.attention[layer - 1])


def features(model: PreTrainedModel, batch: Mapping[str, Tensor], *, hidden: bool, attention: bool) -> Features:
    """Run the model once and keep what is asked for."""
    with _capture() as seen:
        output = model(**model_inputs(model, batch), output_hidden_states=hidden)
    return Features(
        logits=output.logits,
        hidden=tuple(output.hidden_states) if hidden else (),
        attention=tuple(seen) if attention else (),
    )
