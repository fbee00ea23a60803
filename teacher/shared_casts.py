"""One cast of what several linear layers read.

Under autocast every linear layer casts its input by itself: the queries, keys and values of a layer cast the same
hidden states three times, and on the way back three gradients are cast to fp32 before they are added.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

PROJECTIONS = (("query", "key", "value"), ("q_lin", "k_lin", "v_lin"))
"""Names of the three linear layers in an attention module."""


@contextlib.contextmanager
def cast_once(module: nn.Module) -> Iterator[None]:
    """Within the block, hidden states that enter an attention of `module` under CPU autocast are cast at its door."""
    handles = [part.register_forward_pre_hook(_cast) for part in module.modules() if _reads_only_for_projections(part)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _reads_only_for_projections(part: nn.Module) -> bool:
    """An attention with a LayerNorm of its own (ALBERT's) adds its input to what comes out."""
    projects = any(all(type(getattr(part, name, None)) is nn.Linear for name in names) for names in PROJECTIONS)
    return projects and not any(isinstance(child, nn.LayerNorm) for child in part.children())


def _cast(module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
    if not arguments or not isinstance(arguments[0], Tensor) or not torch.is_autocast_enabled("cpu"):
        return None
    return (arguments[0].to(torch.get_autocast_dtype("cpu")), *arguments[1:])
