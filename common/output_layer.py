"""The last linear layer of a model with a head, whatever its family calls it."""

from typing import cast

from torch import nn
from transformers import PreTrainedModel

PATHS = ("classifier.out_proj", "classifier", "qa_outputs", "score")
"""Where it may be: RoBERTa and ELECTRA have a small network for a classifier, and the layer is its last part."""


def output_path(model: PreTrainedModel) -> str | None:
    """Name of the module that gives the logits of a model with a head; None for an encoder alone."""
    modules = dict(model.named_modules(remove_duplicate=False))
    return next((path for path in PATHS if path in modules), None)


def output_layer(model: PreTrainedModel) -> nn.Linear:
    """The module that gives the logits.

    Raises:
        ValueError: a model without a head.
    """
    path = output_path(model)
    if path is None:
        raise ValueError(f"{type(model).__name__} has no output layer")
    return cast(nn.Linear, model.get_submodule(path))


def replace_output_layer(model: PreTrainedModel, layer: nn.Module) -> None:
    """Let `layer` give the logits, in the place of the module that does now."""
    path = output_path(model)
    if path is None:
        raise ValueError(f"{type(model).__name__} has no output layer")
    holder, _, name = path.rpartition(".")
    setattr(model.get_submodule(holder), name, layer)


def is_head(model: PreTrainedModel, name: str) -> bool:
    """Whether a parameter belongs to what stands on the encoder: to the head, or to a pooler that feeds it."""
    prefix = f"{model.base_model_prefix}."
    inner = name.removeprefix(prefix)
    return (not name.startswith(prefix) and model.base_model is not model) or inner.startswith("pooler.")
