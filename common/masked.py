"""Heads that predict masked pieces, of each family of encoders, for chosen positions alone."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel


def _bert(model: Any, states: Tensor) -> Tensor:
    return model.cls.predictions(states)


def _roberta(model: Any, states: Tensor) -> Tensor:
    return model.lm_head(states)


def _electra(model: Any, states: Tensor) -> Tensor:
    return model.generator_lm_head(model.generator_predictions(states))


def _distilbert(model: Any, states: Tensor) -> Tensor:
    return model.vocab_projector(model.vocab_layer_norm(model.activation(model.vocab_transform(states))))


def _albert(model: Any, states: Tensor) -> Tensor:
    return model.predictions(states)


MASKED_HEADS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "bert": _bert,
    "roberta": _roberta,
    "xlm-roberta": _roberta,
    "electra": _electra,
    "distilbert": _distilbert,
    "albert": _albert,
}
"""Model type to: a model with such a head and last hidden states (..., d) to logits (..., vocabulary)."""


def masked_logits(model: PreTrainedModel, states: Tensor) -> Tensor:
    """Logits over the vocabulary for last hidden states (..., d) of a model with such a head.

    Only where they are wanted: the product with the table of pieces costs more than a small model's layers.
    """
    return MASKED_HEADS[model.config.model_type](model, states)
