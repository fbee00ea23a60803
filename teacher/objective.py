"""What the training loop trains: the contract of a model with its loss terms."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn


class Objective(nn.Module):
    """A model with what is trained beside it (heads, projections), and its loss terms.

    Everything trainable is a submodule, so that optimizer, clipping and checkpoints see it; a teacher is not.
    """

    weights: dict[str, float]
    """Loss term to its weight in the total."""

    complete: bool = False
    """Every parameter has a part in every loss: several processes then need not look for those that have none."""

    def at(self, step: int, total: int) -> None:
        """Called before each optimizer step, counted from 0, of `total`: for what changes during a stage."""

    def rate_shares(self) -> Mapping[nn.Parameter, float]:
        """Parameters that do not learn at the full rate, to their share of it."""
        return {}

    def shares(self, part: np.ndarray, batch: np.ndarray) -> Mapping[str, float]:
        """Terms that are no means over all examples, to how much of the mean over a batch a part of it has.

        Both are indices of examples. Every other term's share is the part's share of the examples.
        """
        return {}

    def counts(self, batch: dict[str, Tensor]) -> Mapping[str, int]:
        """Terms that are no means over examples, to how many entries of these tensors they are means over.

        A part's share of such a term is its count's share of the counts of all parts; where that is known before the
        tensors are there, `shares` says it at less cost.
        """
        return {}

    def tables(self) -> list[nn.Embedding]:
        """Embeddings that are looked up for a batch's input_ids and for nothing else: their gradients are then made of
        the rows that occur alone.
        """
        return []

    def follow(self, device: torch.device) -> None:
        """Called with the device that training is on, and with the one it came from at the end: for what is not part of
        the objective, such as a teacher.
        """

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Every term as an fp32 scalar, unweighted, a mean over the batch's examples (or valid positions)."""
        raise NotImplementedError
