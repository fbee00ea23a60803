"""Encoders whose layers differ in heads and feed-forward units, as pruning leaves them; the configuration says how.

transformers has one number for all layers, and a width that is heads times their size. Here each layer has its own. All
else is the family's: modules, names of tensors, attention functions, heads for tasks, outputs.
"""

import contextlib
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn
from transformers import (
    BertForSequenceClassification,
    BertModel,
    CamembertModel,
    DistilBertForSequenceClassification,
    DistilBertModel,
    ElectraModel,
    PreTrainedModel,
    RobertaModel,
    XLMRobertaModel,
)

from common.pooled import PREFIX

FAMILIES: Mapping[str, type[PreTrainedModel]] = {
    "bert": BertModel,
    "roberta": RobertaModel,
    "xlm-roberta": XLMRobertaModel,
    "camembert": CamembertModel,
    "electra": ElectraModel,
    "distilbert": DistilBertModel,
}
"""The plain encoder of a family, by its model_type."""


@dataclass(frozen=True, kw_only=True)
class _Places:
    """Where a family's layer has what differs."""

    attention: str
    projections: tuple[str, str, str]
    """In the attention; so are the next two."""
    heads: str
    width: str
    attention_output: str
    ffn: tuple[str, str]


_BERT = _Places(
    attention="attention.self",
    projections=("query", "key", "value"),
    heads="num_attention_heads",
    width="all_head_size",
    attention_output="attention.output.dense",
    ffn=("intermediate.dense", "output.dense"),
)
_DISTILBERT = _Places(
    attention="attention",
    projections=("q_lin", "k_lin", "v_lin"),
    heads="n_heads",
    width="dim",
    attention_output="attention.out_lin",
    ffn=("ffn.lin1", "ffn.lin2"),
)


class Uneven(nn.Module):
    """Before a model class of transformers, or of common.pooled: its model, with layers in shapes of their own."""

    plain: type[PreTrainedModel]
    """The class whose layers are alike."""

    def __init__(self, config: Any, *arguments: Any, **options: Any) -> None:
        with _one_head(config):
            super().__init__(config, *arguments, **options)
        reshape(getattr(self, "base_model"), config)  # noqa: B009


@contextlib.contextmanager
def _one_head(config: Any) -> Iterator[None]:
    """Layers are built with one head, since several may not divide the width; they get theirs right afterwards."""
    heads, config.num_attention_heads = config.num_attention_heads, 1
    try:
        yield
    finally:
        config.num_attention_heads = heads


def reshape(base: Any, config: Any) -> None:
    """Give an encoder, in place, the layers that its configuration says; their weights are drawn anew.

    Raises:
        ValueError: a configuration without a size for each layer.
    """
    heads, units = (_sizes(config, name) for name in ("heads", "intermediate_sizes"))
    distilbert = hasattr(base, "transformer")
    layers = base.transformer.layer if distilbert else base.encoder.layer
    for layer, *own in zip(layers, heads, units, strict=True):
        _reshape_layer(layer, config, _DISTILBERT if distilbert else _BERT, *own)
    if getattr(config, "projected", False) and not hasattr(base, "embeddings_project"):
        base.embeddings_project = nn.Linear(config.embedding_size, config.hidden_size)


def _sizes(config: Any, name: str) -> list[int]:
    sizes = getattr(config, name)
    if sizes is None or len(sizes) != config.num_hidden_layers or min(sizes) < 1:
        raise ValueError(
            f"{name} {sizes}: one size, 1 or more, for each of {config.num_hidden_layers} layers was expected"
        )
    return list(sizes)


def _reshape_layer(layer: nn.Module, config: Any, places: _Places, heads: int, units: int) -> None:
    attention: Any = layer.get_submodule(places.attention)
    hidden, width = config.hidden_size, heads * config.head_dim
    attention.attention_head_size = config.head_dim
    attention.scaling = config.head_dim**-0.5
    setattr(attention, places.heads, heads)
    setattr(attention, places.width, width)
    for name in places.projections:
        setattr(attention, name, nn.Linear(hidden, width))
    layer.set_submodule(places.attention_output, nn.Linear(width, hidden))
    layer.set_submodule(places.ffn[0], nn.Linear(hidden, units))
    layer.set_submodule(places.ffn[1], nn.Linear(units, hidden))


def uneven_configuration(plain: Any) -> Any:
    """The configuration class of models like those of the configuration class `plain` in shapes of their own."""
    return _configuration(plain)


def uneven(plain: Any) -> Any:
    """The class of models like those of `plain`, with a configuration that gives the shape of every layer."""
    return _model(plain)


@functools.cache
def _configuration(plain: Any) -> Any:
    family = str(plain.model_type).removeprefix(PREFIX)
    own_type = "distillery-" + family if family == plain.model_type else f"{PREFIX}uneven-{family}"

    class Shaped(plain):
        """A family's configuration, with the shape of every layer."""

        model_type = own_type

        heads: list[int] | None = None
        """Attention heads of each layer; `num_attention_heads` is the largest of them."""
        head_dim: int = 64
        """Width of a head."""
        intermediate_sizes: list[int] | None = None
        """Feed-forward units of each layer; `intermediate_size` is the largest of them."""

    class Projected(Shaped):
        """ELECTRA's, whose width says whether there is a map from its tables to the layers, but need not here."""

        model_type = own_type

        projected: bool = False
        """There is one, though both may be equally wide."""

    return _named(Projected if family == "electra" else Shaped, plain)


@functools.cache
def _model(plain: Any) -> Any:
    members = {"config_class": uneven_configuration(plain.config_class), "plain": plain, "__module__": __name__}
    return _named(type("Uneven", (Uneven, plain), members), plain)


def _named(kind: type, plain: type) -> type:
    kind.__name__ = kind.__qualname__ = f"Uneven{plain.__name__}"
    return kind


def plain_class(model: PreTrainedModel) -> type[PreTrainedModel]:
    """The class of such a model whose layers are alike."""
    return type(model).plain if isinstance(model, Uneven) else type(model)


UnevenBertConfig: Any = uneven_configuration(BertModel.config_class)
UnevenBertForSequenceClassification: Any = uneven(BertForSequenceClassification)
UnevenDistilBertConfig: Any = uneven_configuration(DistilBertModel.config_class)
UnevenDistilBertForSequenceClassification: Any = uneven(DistilBertForSequenceClassification)
