"""How far a student's layers are from the teacher's, whatever their widths."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from common.families import scored_layers
from distill.outputs import Features, features
from reports.record import LayerDistance
from teacher.attention import use_training_attention
from teacher.prepare import Prepared

PIECES = 4096
"""Of texts that are looked at together, padded: states and scores of every layer of both models are held of them."""


class LinearCka:
    """Similarity of two sets of states of the same n tokens, (n, d1) and (n, d2), which come in parts.

    1: equal up to rotation, scale and shift. Kornblith et al. 2019 (arXiv 1905.00414), equation for linear kernels:
    |Y'X|² / (|X'X| |Y'Y|), columns centred. Of the parts only sums are kept, in fp64.
    """

    def __init__(self) -> None:
        self._sums: list[Tensor] = []

    def add(self, x: Tensor, y: Tensor) -> None:
        """States of further tokens."""
        # A column of ones: the products hold the sums of the columns and n too.
        x, y = (torch.cat([values.double(), values.new_ones(len(values), 1).double()], dim=1) for values in (x, y))
        found = [left.T @ right for left, right in ((y, x), (x, x), (y, y))]
        self._sums = [before + new for before, new in zip(self._sums, found, strict=True)] if self._sums else found

    def value(self) -> float:
        """Of all tokens so far."""
        cross, own, other = (_centred(products).norm() for products in self._sums)
        return float(cross**2 / (own * other).clamp(min=1e-30))


def _centred(products: Tensor) -> Tensor:
    """Sums over the products of two sets of columns, without the columns of ones, less those of their means."""
    return products[:-1, :-1] - torch.outer(products[:-1, -1], products[-1, :-1]) / products[-1, -1]


def attention_divergence(student: Tensor, teacher: Tensor, valid: Tensor) -> Tensor:
    """Jensen-Shannon divergence in nats of head-averaged attention, one value a valid query row.

    Scores before the softmax, (b, h, l, l) each; padded keys get no weight.
    """
    keys = valid[:, None, None, :]
    first, second = (
        torch.where(keys, scores, torch.finfo(scores.dtype).min).softmax(dim=-1).mean(dim=1)
        for scores in (student, teacher)
    )
    middle = (first + second) / 2

    def divergence(part: Tensor) -> Tensor:
        return torch.special.xlogy(part, part / middle.clamp(min=1e-30)).sum(dim=-1)

    return ((divergence(first) + divergence(second)) / 2)[valid]


@torch.no_grad()
def layer_distances(
    student: PreTrainedModel,
    teacher: PreTrainedModel,
    prepared: Prepared,
    layers: Sequence[int],
    *,
    examples: int = 256,
) -> tuple[LayerDistance, ...]:
    """Distance of every student layer to its teacher layer in `layers`, over the first evaluation examples."""
    encoded = prepared.splits["evaluate"]
    count = min(examples, len(encoded))
    batch_size = max(1, PIECES // int(encoded.lengths[:count].max()))
    pairs = list(enumerate((0, *layers)))
    scored = scored_layers(teacher.config, prepared.max_length)
    similarity = {own: LinearCka() for own, _ in pairs}
    divergences: dict[int, list[Tensor]] = {own: [] for own, _ in pairs[1:]}
    for model in (student, teacher):
        use_training_attention(model)
        model.eval()
    for start in range(0, count, batch_size):
        indices = range(start, min(start + batch_size, count))
        batch = prepared.task.collate(encoded, indices, prepared.pad)
        valid = batch["attention_mask"].bool()
        own_pass, other_pass = (_pass(model, batch) for model in (student, teacher))
        for own, layer in pairs:
            similarity[own].add(own_pass.hidden[own][valid], other_pass.hidden[layer][valid])
            if layer in scored:
                divergences[own].append(attention_divergence(own_pass.scores(own), other_pass.scores(layer), valid))
    return tuple(
        LayerDistance(
            student_layer=own,
            teacher_layer=layer,
            hidden=1.0 - similarity[own].value(),
            attention=float(torch.cat(divergences[own]).mean()) if layer in scored else None,
        )
        for own, layer in pairs
    )


def _pass(model: PreTrainedModel, batch: Mapping[str, Tensor]) -> Features:
    return features(model, batch, hidden=True, attention=True)
