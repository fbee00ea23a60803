"""What distillation looks at inside a model: logits, hidden states, and attention scores of chosen layers."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor
from transformers import PreTrainedModel

from distill.losses import attention_scores
from teacher.attention import Seen, capture
from teacher.prepare import model_inputs, output_logits


@dataclass(frozen=True, kw_only=True)
class Features:
    """One forward pass. An ALBERT layer that is passed six times gives six entries."""

    logits: Tensor
    """(b, c), or of a task per position (b, l, c); empty of an encoder alone."""
    hidden: tuple[Tensor, ...]
    """Embedding output, then every layer: (b, l, d)."""
    attention: tuple[tuple[Tensor, Tensor, float, Tensor], ...]
    """Query (b, h, l, d_k), key, scaling and value of every layer; empty where they were not asked for."""

    def scores(self, layer: int) -> Tensor:
        """Attention scores before the softmax of a layer, counted from 1: (b, h, l, l), see losses.attention_scores."""
        query, key, scaling, _ = self.attention[layer - 1]
        return attention_scores(query, key, scaling)

    def projected(self, layer: int) -> dict[str, Tensor]:
        """Query, key and value states of a layer, counted from 1, the heads side by side: (b, l, d)."""
        query, key, _, value = self.attention[layer - 1]
        states = {"query": query, "key": key, "value": value}
        return {name: state.transpose(1, 2).flatten(2) for name, state in states.items()}


def features(model: PreTrainedModel, batch: Mapping[str, Tensor], *, hidden: bool, attention: bool) -> Features:
    """Run the model, which uses `teacher.attention`, once, and keep what is asked for."""
    watched: contextlib.AbstractContextManager[Seen] = capture() if attention else contextlib.nullcontext([])
    with watched as seen:
        output = model(**model_inputs(model, batch), output_hidden_states=hidden)
    return Features(
        logits=output_logits(output, batch),
        hidden=tuple(output.hidden_states) if hidden else (),
        attention=tuple(seen) if attention else (),
    )
