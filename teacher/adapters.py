"""LoRA: the encoder stays as it is, and small matrices beside its linear layers learn; peft does the work.

Source: Hu et al., arXiv 2106.09685; on all linear layers, not on queries and values alone, as Dettmers et al., arXiv
2305.14314, found better.
"""

import contextlib
import importlib.util
from collections.abc import Iterator

import torch
from torch import nn
from transformers import PreTrainedModel

from common.errors import UserError
from teacher.levels import level, levels

SCALE = 2
"""What is learned is added times this: peft's alpha over the rank."""


def check_adapters() -> None:
    """Raise UserError where peft is not installed."""
    if importlib.util.find_spec("peft") is None:
        raise UserError("--teacher-adapter lora needs the peft library: pip install 'distillery[peft]'")


@contextlib.contextmanager
def low_rank(model: PreTrainedModel, *, rank: int, seed: int) -> Iterator[None]:
    """Within the block adapters and the head learn, all else stays; afterwards they are part of the weights.

    The model is then a plain one again.

    Args:
        model: with a head.
        rank: of the adapters.
        seed: of their first weights. The model computes at first what it computed before.
    """
    check_adapters()
    # peft takes a second to import, and is an extra.
    from peft import LoraConfig, get_peft_model

    places = levels(model)
    head = [parameter for parameter, place in places.items() if place == max(places.values())]
    config = LoraConfig(r=rank, lora_alpha=SCALE * rank, lora_dropout=0.0, target_modules=_layers_of(model))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        adapted = get_peft_model(model, config)
    for parameter in head:
        parameter.requires_grad_(True)
    try:
        yield
    finally:
        adapted.merge_and_unload()


def _layers_of(model: PreTrainedModel) -> list[str]:
    """The names of the linear layers inside the encoder's layers."""
    body = model.base_model
    inside = {module for name, module in body.named_modules() if type(module) is nn.Linear and level(f".{name}.")}
    return [name for name, module in model.named_modules() if module in inside]
