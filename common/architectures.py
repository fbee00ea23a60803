"""Model types of our own, which transformers' Auto classes load once they are registered.

A folder with such a type is refused by transformers alone ("unrecognised model type"), instead of computing something
else; common.artifact and teacher.sources register them before they load.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, PretrainedConfig, PreTrainedModel

from common.heads import AUTO_CLASSES
from common.pooled import POOLED, configuration_class
from common.uneven import FAMILIES, uneven, uneven_configuration


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A model type: its configuration, and a class for each of transformers' Auto classes that load it."""

    config: type[PretrainedConfig]
    models: Mapping[type, type[PreTrainedModel]]


def _pooled(model: type[PreTrainedModel]) -> Architecture:
    return Architecture(config=configuration_class(model), models={AutoModelForSequenceClassification: model})


def _uneven(encoder: type[PreTrainedModel]) -> Architecture:
    """Of encoders like `encoder` whose layers differ, alone and with each kind of head."""
    family = encoder.__name__.removesuffix("Model")
    heads = {auto: uneven(_of_transformers(family + kind)) for kind, auto in AUTO_CLASSES.items()}
    return Architecture(config=uneven_configuration(encoder.config_class), models=heads | {AutoModel: uneven(encoder)})


def _uneven_pooled(model: type[PreTrainedModel]) -> Architecture:
    return Architecture(
        config=uneven_configuration(model.config_class), models={AutoModelForSequenceClassification: uneven(model)}
    )


def _of_transformers(name: str) -> type[PreTrainedModel]:
    import transformers

    found: type[PreTrainedModel] = getattr(transformers, name)
    return found


def _by_type(*found: Architecture) -> dict[str, Architecture]:
    return {entry.config.model_type: entry for entry in found}


ARCHITECTURES: dict[str, Architecture] = _by_type(
    *(_uneven(encoder) for encoder in FAMILIES.values()),
    *(_pooled(model) for model in POOLED.values()),
    *(_uneven_pooled(model) for name, model in POOLED.items() if name in FAMILIES),
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
    own = {model.__name__: model for entry in ARCHITECTURES.values() for model in entry.models.values()}
    return own.get(name) or _of_transformers(name)
