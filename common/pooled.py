"""Classifiers that read the mean or the largest of all states instead of [CLS], with model types of their own.

The tensors have the names of the plain families, whose classes would load them and read [CLS] without a word. Under a
type of its own a folder is refused by transformers alone.
"""

import re
from typing import Any, cast

from torch import Tensor, nn
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    DebertaConfig,
    DebertaForSequenceClassification,
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    ElectraConfig,
    ElectraForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
    RobertaConfig,
    RobertaForSequenceClassification,
    XLMRobertaConfig,
    XLMRobertaForSequenceClassification,
)

from common.errors import UserError
from common.pooling import POOLINGS, Pooled, PooledWithoutSegments

PREFIX = "distillery-pooled-"


class PooledBertConfig(BertConfig):
    """BERT's, with the pooling."""

    model_type = PREFIX + "bert"
    pooling: str = "mean"


class PooledRobertaConfig(RobertaConfig):
    """RoBERTa's, with the pooling."""

    model_type = PREFIX + "roberta"
    pooling: str = "mean"


class PooledXLMRobertaConfig(XLMRobertaConfig):
    """XLM-R's, with the pooling."""

    model_type = PREFIX + "xlm-roberta"
    pooling: str = "mean"


class PooledElectraConfig(ElectraConfig):
    """ELECTRA's, with the pooling."""

    model_type = PREFIX + "electra"
    pooling: str = "mean"


class PooledDistilBertConfig(DistilBertConfig):
    """DistilBERT's, with the pooling."""

    model_type = PREFIX + "distilbert"
    pooling: str = "mean"


class PooledAlbertConfig(AlbertConfig):
    """ALBERT's, with the pooling."""

    model_type = PREFIX + "albert"
    pooling: str = "mean"


class PooledDebertaConfig(DebertaConfig):
    """DeBERTa's, with the pooling."""

    model_type = PREFIX + "deberta"
    pooling: str = "mean"


class PooledDebertaV2Config(DebertaV2Config):
    """DeBERTa v2's and v3's, with the pooling."""

    model_type = PREFIX + "deberta-v2"
    pooling: str = "mean"


class PooledBertForSequenceClassification(Pooled, BertForSequenceClassification):
    """BERT's: pooler (dense, tanh), dropout, output layer."""

    config_class = PooledBertConfig

    def head(self: Any, pooled: Tensor) -> Tensor:
        return self.classifier(self.dropout(self.bert.pooler(pooled[:, None])))


class PooledRobertaForSequenceClassification(Pooled, RobertaForSequenceClassification):
    """RoBERTa's: dense, tanh, output layer."""

    config_class = PooledRobertaConfig

    def head(self: Any, pooled: Tensor) -> Tensor:
        return self.classifier(pooled[:, None])


class PooledXLMRobertaForSequenceClassification(Pooled, XLMRobertaForSequenceClassification):
    """XLM-R's: dense, tanh, output layer."""

    config_class = PooledXLMRobertaConfig

    def head(self: Any, pooled: Tensor) -> Tensor:
        return self.classifier(pooled[:, None])


class PooledElectraForSequenceClassification(Pooled, ElectraForSequenceClassification):
    """ELECTRA's: dense, gelu, output layer."""

    config_class = PooledElectraConfig

    def head(self: Any, pooled: Tensor) -> Tensor:
        return self.classifier(pooled[:, None])


class PooledDistilBertForSequenceClassification(PooledWithoutSegments, DistilBertForSequenceClassification):
    """DistilBERT's: dense, ReLU, dropout, output layer."""

    config_class = PooledDistilBertConfig

    def head(self: Any, pooled: Tensor) -> Tensor:
        return self.classifier(self.dropout(nn.functional.relu(self.pre_classifier(pooled))))


class PooledAlbertForSequenceClassification(Pooled, AlbertForSequenceClassification):
    """ALBERT's: pooler (dense, tanh), dropout, output layer."""

    config_class = PooledAlbertConfig

    def head(self: Any, pooled: Tensor) -> Tensor:
        return self.classifier(self.dropout(self.albert.pooler_activation(self.albert.pooler(pooled))))


class PooledDebertaForSequenceClassification(Pooled, DebertaForSequenceClassification):
    """DeBERTa's: dropout, dense, gelu, dropout, output layer."""

    config_class = PooledDebertaConfig

    def head(self: Any, pooled: Tensor) -> Tensor:
        return self.classifier(self.dropout(self.pooler(pooled[:, None])))


class PooledDebertaV2ForSequenceClassification(Pooled, DebertaV2ForSequenceClassification):
    """DeBERTa v2's and v3's: dropout, dense, gelu, dropout, output layer."""

    config_class = PooledDebertaV2Config

    def head(self: Any, pooled: Tensor) -> Tensor:
        return self.classifier(self.dropout(self.pooler(pooled[:, None])))


POOLED: dict[str, type[PreTrainedModel]] = {
    "bert": PooledBertForSequenceClassification,
    "roberta": PooledRobertaForSequenceClassification,
    "xlm-roberta": PooledXLMRobertaForSequenceClassification,
    "electra": PooledElectraForSequenceClassification,
    "distilbert": PooledDistilBertForSequenceClassification,
    "albert": PooledAlbertForSequenceClassification,
    "deberta": PooledDebertaForSequenceClassification,
    "deberta-v2": PooledDebertaV2ForSequenceClassification,
}
"""By the model_type of the plain family."""


def configuration_class(model: type[PreTrainedModel]) -> type[PretrainedConfig]:
    """That of a classifier of POOLED."""
    return cast(type[PretrainedConfig], model.config_class)


def plain_type(config: PretrainedConfig) -> str:
    """The model_type of the family, whatever a classifier of it pools."""
    return str(config.model_type).removeprefix(PREFIX)


def family_type(config: PretrainedConfig) -> str:
    """The model_type of the family, whatever a classifier of it pools and whether its layers differ in shape."""
    return re.sub(r"^distillery-(pooled-)?(uneven-)?", "", str(config.model_type))


def pooling_of(config: PretrainedConfig) -> str:
    """What a classifier with this configuration reads: one of POOLINGS."""
    return str(getattr(config, "pooling", "cls")) if str(config.model_type).startswith(PREFIX) else "cls"


def pooled_configuration(config: PretrainedConfig, pooling: str, **changes: Any) -> PretrainedConfig:
    """The configuration of a classifier with this pooling, for the encoder with `config`; `changes` are its labels.

    ModernBERT has a mean of its own, which is switched on.

    Raises:
        UserError: a family that cannot.
    """
    if config.model_type == "modernbert" and pooling == "mean":
        return type(config).from_dict(config.to_dict() | {"classifier_pooling": "mean"}, **changes)
    if plain_type(config) not in POOLED:
        raise UserError(
            f"pooling {pooling!r}: models of the type {config.model_type!r} are pooled by {POOLINGS[0]!r} only; the "
            f"others can be had for {', '.join(POOLED)}"
        )
    kind = configuration_class(POOLED[plain_type(config)])
    values = {name: value for name, value in config.to_dict().items() if name not in ("model_type", *changes)}
    return kind.from_dict(values | {"pooling": pooling}, **changes)
