"""Model types of our own, which transformers' Auto classes load once they are registered.

A folder with such a type is refused by transformers alone ("unrecognised model type"), instead of computing something
else; common.artifact and teacher.sources register them before they load.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, PretrainedConfig, PreTrainedModel

from common.pooled import POOLED, configuration_class
from common.uneven import FAMILIES, uneven, uneven_configuration


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A model type: its configuration, and a class for each of transformers' Auto classes that load it."""

    config: type[PretrainedConfig]
    models: Mapping[type, type[PreTrainedModel]]


def _pooled(model: type[PreTrainedModel]) -> Architecture:
    return Architecture(config=configuration_class(model), models={AutoModelForSequenceClassification: model})


def _uneven(model: type[PreTrainedModel], encoder: type[PreTrainedModel] | None = None) -> Architecture:
    """Of models like `model` whose layers differ, and of the encoder alone."""
    models: dict[type, type[PreTrainedModel]] = {AutoModelForSequenceClassification: uneven(model)}
    return Architecture(
        config=uneven_configuration(model.config_class),
        models=models if encoder is None else models | {AutoModel: uneven(encoder)},
    )


def _by_type(*found: Architecture) -> dict[str, Architecture]:
    return {entry.config.model_type: entry for entry in found}


ARCHITECTURES: dict[str, Architecture] = _by_type(
    *(_uneven(classifier, encoder) for encoder, classifier in FAMILIES.values()),
    *(_pooled(model) for model in POOLED.values()),
    *(_uneven(model) for name, model in POOLED.items() if name in FAMILIES),
)
"""By model_type. Another head for a type is one more entry in its `models`."""


def register_architectures() -> None:
    """Let transformers' Auto classes know the types. Calling it again is harmless."""
    for name, architecture in ARCHITECTURES.items():
        AutoConfig.register(name, architecture.config, exist_ok=True)
        for auto, model in architecture.models.items():
            auto.register(architecture.config, model, exist_ok=True)  # type: ignore[attr-defined]


def model_class(name: str) -> type[PreTrainedModel]:
    """The class of that name, as a configuration's `architectures` has it: one of ours or of transformers'."""
    import transformers

    own = {model.__name__: model for entry in ARCHITECTURES.values() for model in entry.models.values()}
    return own.get(name) or getattr(transformers, name)
