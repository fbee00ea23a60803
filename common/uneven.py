"""Encoders whose layers differ in heads and feed-forward units, as pruning leaves them; the configuration says how.

transformers' BERT and DistilBERT have one number for all layers, and a width that is heads times their size. Here each
layer has its own. All else is theirs: modules, names of tensors, attention functions, outputs.
"""

import copy
from typing import Any

from torch import nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    BertPreTrainedModel,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    DistilBertModel,
    DistilBertPreTrainedModel,
    PretrainedConfig,
)
from transformers.models.bert.modeling_bert import BertEmbeddings, BertEncoder, BertLayer, BertPooler
from transformers.models.distilbert.modeling_distilbert import Embeddings, Transformer, TransformerBlock


class UnevenBertConfig(BertConfig):
    """A BERT's, with the shape of every layer."""

    model_type = "distillery-bert"

    heads: list[int] | None = None
    """Attention heads of each layer; `num_attention_heads` is the largest of them."""
    head_dim: int = 64
    """Width of a head."""
    intermediate_sizes: list[int] | None = None
    """Feed-forward units of each layer; `intermediate_size` is the largest of them."""


class UnevenDistilBertConfig(DistilBertConfig):
    """A DistilBERT's, with the shape of every layer."""

    model_type = "distillery-distilbert"

    heads: list[int] | None = None
    """Attention heads of each layer; `n_heads` is the largest of them."""
    head_dim: int = 64
    """Width of a head."""
    intermediate_sizes: list[int] | None = None
    """Feed-forward units of each layer; `hidden_dim` is the largest of them."""


def _layer_config(config: PretrainedConfig, index: int, **names: str) -> Any:
    """A configuration that transformers' own layer takes: one head, whose width is set right afterwards."""
    own: Any = copy.copy(config)
    setattr(own, names["heads"], 1)
    setattr(own, names["units"], _shapes(config, "intermediate_sizes")[index])
    return own


def _shapes(config: Any, name: str) -> list[int]:
    sizes = getattr(config, name)
    if sizes is None or len(sizes) != config.num_hidden_layers or min(sizes) < 1:
        raise ValueError(
            f"{name} {sizes}: one size, 1 or more, for each of {config.num_hidden_layers} layers was expected"
        )
    return list(sizes)


def _resize(attention: Any, config: Any, index: int, projections: tuple[str, str, str]) -> int:
    """Give an attention its heads; the width of all of them."""
    heads = _shapes(config, "heads")[index]
    attention.config = config
    attention.attention_head_size = config.head_dim
    attention.scaling = config.head_dim**-0.5
    for name in projections:
        setattr(attention, name, nn.Linear(config.hidden_size, heads * config.head_dim))
    return heads * int(config.head_dim)


class UnevenBertLayer(BertLayer):
    """A BERT layer of its own shape."""

    def __init__(self, config: UnevenBertConfig, layer_idx: int) -> None:
        super().__init__(
            _layer_config(config, layer_idx, heads="num_attention_heads", units="intermediate_size"), layer_idx
        )
        attention = self.attention.self
        width = _resize(attention, config, layer_idx, ("query", "key", "value"))
        attention.num_attention_heads, attention.all_head_size = width // config.head_dim, width
        self.attention.output.dense = nn.Linear(width, config.hidden_size)


class UnevenBertEncoder(BertEncoder):
    """The layers."""

    def __init__(self, config: UnevenBertConfig) -> None:
        nn.Module.__init__(self)
        self.config = config
        self.layer = nn.ModuleList([UnevenBertLayer(config, index) for index in range(config.num_hidden_layers)])


class UnevenBertModel(BertModel):
    """The encoder, with a pooler if asked for; heads of any task go on top."""

    config_class = UnevenBertConfig

    def __init__(self, config: UnevenBertConfig, add_pooling_layer: bool = True) -> None:
        BertPreTrainedModel.__init__(self, config)
        self.gradient_checkpointing = False
        self.embeddings = BertEmbeddings(config)
        self.encoder = UnevenBertEncoder(config)
        self.pooler = BertPooler(config) if add_pooling_layer else None
        self.post_init()


class UnevenBertForSequenceClassification(BertForSequenceClassification):
    """With BERT's head for whole texts."""

    config_class = UnevenBertConfig

    def __init__(self, config: UnevenBertConfig) -> None:
        BertPreTrainedModel.__init__(self, config)
        self.num_labels = int(config.num_labels or 0)
        self.bert = UnevenBertModel(config)
        dropout = config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(config.hidden_size, self.num_labels)
        self.post_init()


class UnevenDistilBertBlock(TransformerBlock):
    """A DistilBERT layer of its own shape."""

    def __init__(self, config: UnevenDistilBertConfig, index: int) -> None:
        super().__init__(_layer_config(config, index, heads="n_heads", units="hidden_dim"))
        attention = self.attention
        width = _resize(attention, config, index, ("q_lin", "k_lin", "v_lin"))
        attention.n_heads, attention.dim = width // config.head_dim, width
        attention.out_lin = nn.Linear(width, config.dim)


class UnevenTransformer(Transformer):
    """The layers."""

    def __init__(self, config: UnevenDistilBertConfig) -> None:
        nn.Module.__init__(self)
        self.n_layers = config.n_layers
        self.layer = nn.ModuleList([UnevenDistilBertBlock(config, index) for index in range(config.n_layers)])
        self.gradient_checkpointing = False


class UnevenDistilBertModel(DistilBertModel):
    """The encoder; heads of any task go on top."""

    config_class = UnevenDistilBertConfig

    def __init__(self, config: UnevenDistilBertConfig) -> None:
        DistilBertPreTrainedModel.__init__(self, config)
        self.embeddings = Embeddings(config)
        self.transformer = UnevenTransformer(config)
        self.post_init()


class UnevenDistilBertForSequenceClassification(DistilBertForSequenceClassification):
    """With DistilBERT's head for whole texts."""

    config_class = UnevenDistilBertConfig

    def __init__(self, config: UnevenDistilBertConfig) -> None:
        DistilBertPreTrainedModel.__init__(self, config)
        self.num_labels = int(config.num_labels or 0)
        self.distilbert = UnevenDistilBertModel(config)
        self.pre_classifier = nn.Linear(config.dim, config.dim)
        self.classifier = nn.Linear(config.dim, self.num_labels)
        self.dropout = nn.Dropout(config.seq_classif_dropout)
        self.post_init()
