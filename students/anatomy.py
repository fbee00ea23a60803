"""Where heads, feed-forward units and the stream of states are in an encoder, by family."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from torch import nn
from transformers import PretrainedConfig, PreTrainedModel

from common.errors import UserError
from common.heads import CHOICE, SEQUENCE, head_of_model
from common.output_layer import output_layer
from common.pooled import family_type
from common.quantised import refuse_int8


@dataclass(frozen=True, kw_only=True)
class Names:
    """Names of modules inside an encoder, and of its sizes in a configuration."""

    layers: str
    norm: str
    """LayerNorm of the embedding output, where the stream begins; with a map after it, the stream begins there."""
    pooler: str
    """The linear layer between the stream and a classifier of texts, inside the whole model."""
    choice_pooler: str
    """The same before a head that scores choices. Heads that read every position have none."""
    projections: tuple[str, str, str]
    """Query, key and value, inside a layer; so are the rest."""
    attention_output: str
    attention_norm: str
    ffn_in: str
    ffn_out: str
    ffn_norm: str
    heads: str = "num_attention_heads"
    ffn: str = "intermediate_size"
    hidden: str = "hidden_size"
    depth: str = "num_hidden_layers"


PROJECTION = "embeddings_project"
"""ELECTRA's map from tables of another width to the stream."""
BERT = Names(
    layers="encoder.layer",
    norm="embeddings.LayerNorm",
    pooler="bert.pooler.dense",
    choice_pooler="bert.pooler.dense",
    projections=("attention.self.query", "attention.self.key", "attention.self.value"),
    attention_output="attention.output.dense",
    attention_norm="attention.output.LayerNorm",
    ffn_in="intermediate.dense",
    ffn_out="output.dense",
    ffn_norm="output.LayerNorm",
)
DISTILBERT = Names(
    layers="transformer.layer",
    norm="embeddings.LayerNorm",
    pooler="pre_classifier",
    choice_pooler="pre_classifier",
    projections=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
    attention_output="attention.out_lin",
    attention_norm="sa_layer_norm",
    ffn_in="ffn.lin1",
    ffn_out="ffn.lin2",
    ffn_norm="output_layer_norm",
    heads="n_heads",
    ffn="hidden_dim",
    hidden="dim",
    depth="n_layers",
)
ROBERTA = dataclasses.replace(BERT, pooler="classifier.dense", choice_pooler="roberta.pooler.dense")
ELECTRA = dataclasses.replace(ROBERTA, choice_pooler="sequence_summary.summary")
NAMES = {
    "bert": BERT,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    "camembert": ROBERTA,
    "electra": ELECTRA,
    "distilbert": DISTILBERT,
}
"""By the model_type of the family: what can be pruned, whatever its classifier pools and however uneven it is."""
SHARED = "albert"
"""Its layers are one and the same block, so that none has units of its own."""


def check_prunable(config: PretrainedConfig) -> Names:
    """The names in models of this configuration; raises UserError for a family that cannot be pruned."""
    family = family_type(config)
    if family not in NAMES:
        why = " since its layers share their weights" if family == SHARED else ""
        raise UserError(
            f"--prune: models of type {config.model_type!r} cannot be pruned{why}: give one of {', '.join(NAMES)}, "
            "such as the students tiny and distil"
        )
    return NAMES[family]


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The parts of one layer."""

    whole: nn.Module
    projections: tuple[nn.Linear, ...]
    attention_output: nn.Linear
    attention_norm: nn.Module
    ffn_in: nn.Linear
    ffn_out: nn.Linear
    ffn_norm: nn.Module


@dataclass(frozen=True, kw_only=True)
class Anatomy:
    """The parts of a model."""

    names: Names
    norm: nn.Module
    """What the stream begins with: a LayerNorm, or the map after it."""
    layers: tuple[Layer, ...]
    pooler: nn.Linear | None
    head: nn.Linear
    """The task's own layer, which gives the logits."""
    projection: nn.Linear | None
    """From tables of another width to the stream."""


def anatomy(model: PreTrainedModel) -> Anatomy:
    """The parts of a model with a head, of a family of NAMES; raises UserError for others."""
    names = check_prunable(model.config)
    refuse_int8(model, "pruned")
    base = model.base_model
    projection = _linear(base, PROJECTION) if hasattr(base, PROJECTION) else None
    return Anatomy(
        names=names,
        norm=projection or base.get_submodule(names.norm),
        layers=tuple(_layer(layer, names) for layer in _children(base.get_submodule(names.layers))),
        pooler=_pooler(model, names),
        head=output_layer(model),
        projection=projection,
    )


def _pooler(model: PreTrainedModel, names: Names) -> nn.Linear | None:
    """None where the head reads the stream itself."""
    path = {SEQUENCE: names.pooler, CHOICE: names.choice_pooler}.get(head_of_model(model))
    # A BERT that pools other states than [CLS] has a classifier alone.
    without = path is None or (names is BERT and getattr(model.base_model, "pooler", None) is None)
    return None if path is None or without else _linear(model, path)


def _children(module: Any) -> list[nn.Module]:
    return list(module)


def _layer(layer: nn.Module, names: Names) -> Layer:
    return Layer(
        whole=layer,
        projections=tuple(_linear(layer, name) for name in names.projections),
        attention_output=_linear(layer, names.attention_output),
        attention_norm=layer.get_submodule(names.attention_norm),
        ffn_in=_linear(layer, names.ffn_in),
        ffn_out=_linear(layer, names.ffn_out),
        ffn_norm=layer.get_submodule(names.ffn_norm),
    )


def _linear(module: nn.Module, name: str) -> nn.Linear:
    found = module.get_submodule(name)
    if not isinstance(found, nn.Linear):
        raise TypeError(f"{name} is a {type(found).__name__}, a linear layer was expected")
    return found
