"""Cross-entropy over a vocabulary, a few rows at a time.

Logits of some hundred positions over thousands of pieces are megabytes in fp32, and the plain way writes them, their
log-softmax and its gradient to memory one after another. Here a block of rows passes through all of that while it is
in the cache, and what is kept and handed back has the precision of the logits.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

BLOCK = 2**18
"""Logits of a block: 1 MB of fp32."""


def cross_entropies(scores: Tensor, labels: Tensor) -> Tensor:
    """-log softmax(scores)[label] of every row, (n,) in fp32, for scores (n, classes) in any precision.

    All sums are in fp32, as if the scores were; their gradient is rounded once to their own precision.
    """
    if scores.device.type != "cpu":
        return functional.cross_entropy(scores.float(), labels, reduction="none")
    losses: Tensor = _CrossEntropies.apply(scores, labels)
    return losses


class _CrossEntropies(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, labels: Tensor) -> Tensor:
        normalisers = torch.empty(len(scores))
        for rows, block in _blocks(scores):
            greatest = block.amax(dim=-1, keepdim=True)
            sums = block.sub_(greatest).exp_().sum(dim=-1)
            normalisers[rows] = sums.log_().add_(greatest.squeeze(1))
        ctx.save_for_backward(scores, labels, normalisers)
        return normalisers - scores.gather(1, labels[:, None]).squeeze(1).float()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """(softmax(scores) - one-hot labels) x the gradient of the row's loss."""
        scores, labels, normalisers = ctx.saved_tensors
        result = torch.empty_like(scores)
        for rows, block in _blocks(scores):
            block.sub_(normalisers[rows, None]).exp_()
            block[torch.arange(len(block)), labels[rows]] -= 1.0
            result[rows] = block.mul_(gradients[0][rows, None])
        return result, None


def _blocks(scores: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Rows and their scores in fp32, in memory that the next block overwrites."""
    size = max(1, BLOCK // scores.shape[1])
    memory = torch.empty(min(size, len(scores)), scores.shape[1])
    for start in range(0, len(scores), size):
        rows = slice(start, start + size)
        yield rows, memory[: len(scores[rows])].copy_(scores[rows])
