"""Activation checkpointing: a layer keeps its input alone, and is computed once more on the way back."""

import contextlib
from collections.abc import Iterator
from functools import partial

import torch
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from common.errors import UserError
from teacher.dropout import redrawing


def recompute_activations(model: PreTrainedModel, *, option: str = "--activation-checkpointing") -> None:
    """Let every layer of `model` do so while it trains; losses and gradients stay as they were.

    Source: Chen et al., arXiv 1604.06174. Memory for activations falls to the inputs of the layers and one layer's
    inside, for about a third more computing. `option` is what asked for it, for messages.

    Raises:
        UserError: a family whose layers cannot, such as ALBERT.
    """
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise UserError(
            f"{option}: transformers has none for models of the type {model.config.model_type!r}: "
            "leave it out, and use smaller batches with more accumulation"
        )
    function = partial(
        checkpoint,
        use_reentrant=False,
        context_fn=_contexts,
        # On a CPU no layer draws from torch's generator, which two lanes would put back at the same time.
        preserve_rng_state=torch.accelerator.is_available(),
    )
    for layer in layers:
        layer._gradient_checkpointing_func = function  # type: ignore[assignment]
        layer.gradient_checkpointing = True


@contextlib.contextmanager
def recomputed(model: PreTrainedModel, *, option: str) -> Iterator[None]:
    """Within the block its layers do so."""
    recompute_activations(model, option=option)
    try:
        yield
    finally:
        for module in model.modules():
            if isinstance(module, GradientCheckpointingLayer):
                module.gradient_checkpointing = False


def _contexts() -> tuple[contextlib.AbstractContextManager[None], contextlib.AbstractContextManager[None]]:
    """Of the first computation of a layer, and of the second, which must drop the same units."""
    return contextlib.nullcontext(), redrawing()
