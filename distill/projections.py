"""From a student's width to its teacher's."""

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from distill.outputs import features
from distill.spans import paired, teachers_view


def width(model: PreTrainedModel) -> int:
    """Width of the hidden states."""
    return int(model.config.hidden_size)


@torch.no_grad()
def fitted_projection(
    student: PreTrainedModel,
    teacher: PreTrainedModel,
    batches: list[dict[str, Tensor]],
    layers: tuple[int, ...],
    *,
    shared: bool = True,
) -> nn.Module:
    """The linear map with bias that brings the student's states nearest to the teacher's, by ridge least squares.

    Over real tokens of all mapped layers and the embeddings of `batches`; not `shared`, one map for the embeddings and
    one for each layer, as an nn.ModuleList. A projection that starts from noise has to be learned at the student's
    small rate before its losses mean anything; this one fits from the first step. The identity where the widths are
    equal.
    """
    if width(student) == width(teacher):
        return nn.Identity()
    inputs: list[list[Tensor]] = [[] for _ in (0, *layers)]
    targets: list[list[Tensor]] = [[] for _ in (0, *layers)]
    was_training = student.training
    student.eval()
    for batch in batches:
        own = features(student, batch, hidden=True, attention=False).hidden
        others = features(teacher, teachers_view(batch), hidden=True, attention=False).hidden
        for place, (state, layer) in enumerate(zip(own, (0, *layers), strict=True)):
            mine, theirs, valid = paired(state, others[layer], batch)
            inputs[place].append(mine[valid].double())
            targets[place].append(theirs[valid].double())
    student.train(was_training)
    maps = [ridge_map(torch.cat(x), torch.cat(y)) for x, y in zip(inputs, targets, strict=True)] if not shared else []
    return nn.ModuleList(maps) if maps else ridge_map(_joined(inputs), _joined(targets))


def _joined(states: list[list[Tensor]]) -> Tensor:
    """Batch by batch, in each layer by layer."""
    return torch.cat([layer for batch in zip(*states, strict=True) for layer in batch])


@torch.no_grad()
def ridge_map(x: Tensor, y: Tensor) -> nn.Linear:
    """The linear map with bias from x (n, d1) to y (n, d2) with the least squared error and a small penalty."""
    x = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
    gram = x.T @ x + 1e-3 * len(x) * torch.eye(x.shape[1], dtype=x.dtype)
    solution = torch.linalg.solve(gram, x.T @ y)
    projection = nn.Linear(x.shape[1] - 1, y.shape[1])
    projection.weight.copy_(solution[:-1].T)
    projection.bias.copy_(solution[-1])
    return projection
