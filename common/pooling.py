"""One vector for a text from its states, where a classifier is not to read [CLS] alone."""

from typing import Any

import torch
from torch import Tensor
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils.generic import can_return_tuple

from common.errors import unknown_name

POOLINGS = ("cls", "mean", "max")


def pool(states: Tensor, mask: Tensor | None, pooling: str) -> Tensor:
    """States (batch, length, width) to (batch, width): the mean or the largest of each channel over the real pieces.

    [CLS] and [SEP] are among these, as in sentence-transformers' `Pooling` (Reimers and Gurevych, arXiv 1908.10084).

    Args:
        states: of the last layer.
        mask: (batch, length), 1 for real pieces; None where all are.
        pooling: one of POOLINGS; "cls" is the first state.

    Raises:
        UserError: another pooling.
    """
    if pooling == "cls":
        return states[:, 0]
    real = (torch.ones(states.shape[:2], device=states.device) if mask is None else mask).unsqueeze(-1)
    if pooling == "max":
        return states.masked_fill(real == 0, torch.finfo(states.dtype).min).amax(dim=1)
    if pooling == "mean":
        # bf16 has too few digits for a sum over hundreds of states.
        return ((states.float() * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)).to(states.dtype)
    raise unknown_name("pooling", pooling, POOLINGS)


class Pooled:
    """Before a ...ForSequenceClassification: its own head on the pooled state, which takes the place of [CLS]'s."""

    def head(self, pooled: Tensor) -> Tensor:
        """(batch, width) to logits (batch, outputs), with the modules of the family's head."""
        raise NotImplementedError

    @can_return_tuple
    def forward(
        self: Any,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        **inputs: Any,
    ) -> SequenceClassifierOutput:
        """As the family's own; `attention_mask` is (batch, length)."""
        return self.answer(labels, input_ids, attention_mask, token_type_ids=token_type_ids, **inputs)

    def answer(
        self: Any, labels: Tensor | None, input_ids: Tensor | None, attention_mask: Tensor | None, **inputs: Any
    ) -> SequenceClassifierOutput:
        """The output for these inputs of the encoder, with a loss where there are labels."""
        found = self.base_model(input_ids=input_ids, attention_mask=attention_mask, **inputs)
        logits = self.head(pool(found.last_hidden_state, attention_mask, self.config.pooling))
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        return SequenceClassifierOutput(
            loss=loss, logits=logits, hidden_states=found.hidden_states, attentions=found.attentions
        )


class PooledWithoutSegments(Pooled):
    """The same for encoders that take no segments."""

    @can_return_tuple
    def forward(
        self: Any,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        **inputs: Any,
    ) -> SequenceClassifierOutput:
        """As the family's own; `attention_mask` is (batch, length)."""
        return self.answer(labels, input_ids, attention_mask, **inputs)
