"""Regression heads in the units of the labels, trained as if the labels had mean 0 and deviation 1."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from common.output_layer import output_layer, replace_output_layer
from teacher.tasks.base import Task


class StandardisedHead(nn.Module):
    """`shift + scale * inner(x)`: AdamW moves a weight by about its rate a step, too little for labels up to 200."""

    def __init__(self, inner: nn.Linear, shift: float, scale: float) -> None:
        super().__init__()
        self.inner, self.shift, self.scale = inner, shift, scale

    def forward(self, states: Tensor) -> Tensor:
        return self.shift + self.scale * self.inner(states).float()


@contextlib.contextmanager
def standardised_head(model: PreTrainedModel, task: Task) -> Iterator[None]:
    """Within the block the output layer is trained in standardised units; the function it computes is the same.

    Nothing is done for tasks whose outputs have no unit.
    """
    shift, scale = task.label_scale()
    if (shift, scale) == (0.0, 1.0):
        yield
        return
    head = output_layer(model)
    _rescale(head, 1 / scale, -shift / scale)
    replace_output_layer(model, StandardisedHead(head, shift, scale))
    try:
        yield
    finally:
        replace_output_layer(model, head)
        _rescale(head, scale, shift)


def start_in_label_units(model: PreTrainedModel, task: Task) -> None:
    """Let a new output layer answer about the mean of the training labels, give or take their deviation.

    Correlations do not see a shift: without this, the checkpoint they select may still answer near 0.
    """
    shift, scale = task.label_scale()
    _rescale(output_layer(model), scale, shift)


@torch.no_grad()
def _rescale(head: nn.Linear, factor: float, offset: float) -> None:
    head.weight.mul_(factor)
    head.bias.mul_(factor).add_(offset)
