"""How high in the network each parameter lies, by its name: what rates that fall with depth, and freezing, go by."""

import re

from torch import nn
from transformers import PreTrainedModel

_LAYER = re.compile(r"\.(?:layer|layers|albert_layer_groups)\.(\d+)\.")
"""BERT, RoBERTa, ELECTRA, DeBERTa: encoder.layer; DistilBERT: transformer.layer; ModernBERT: layers. ALBERT's groups
stand for their layers, which have the same weights."""


def level(name: str) -> int | None:
    """Of a parameter of an encoder, by its name with a dot before it: 0 for embeddings, k for layer k, from 1.

    None for what comes after the last layer: pooler and ModernBERT's last norm. What DeBERTa has beside its layers
    (relative positions and their norm, a convolution after the first layer) counts as what it works with.
    """
    if found := _LAYER.search(name):
        return int(found.group(1)) + 1
    if ".pooler" in name or ".final_norm." in name:
        return None
    return 1 if ".encoder.conv." in name else 0


def levels(model: PreTrainedModel) -> dict[nn.Parameter, int]:
    """Every parameter of a model with a head: 0 for embeddings, k for layer k of n, n + 1 for the head with its pooler.

    ModernBERT's last norm goes with the head.
    """
    body = {parameter: level(f".{name}") for name, parameter in model.base_model.named_parameters()}
    top = max((found for found in body.values() if found is not None), default=0) + 1
    found = {parameter: body.get(parameter) for parameter in model.parameters()}
    return {parameter: top if place is None else place for parameter, place in found.items()}


def rate_shares(model: PreTrainedModel, *, decay: float = 1.0, head: float = 1.0) -> dict[nn.Parameter, float]:
    """Parameter to its share of the learning rate: `decay` to the power of the levels above it, the head's own `head`.

    Source: discriminative fine-tuning (Howard and Ruder, arXiv 1801.06146, section 3.2), with the factor of each layer
    to the next as in ELECTRA (Clark et al., arXiv 2003.10555, appendix B).
    """
    places = levels(model)
    top = max(places.values())
    return {parameter: head if place == top else decay ** (top - place) for parameter, place in places.items()}
