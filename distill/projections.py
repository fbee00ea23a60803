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
    fits = [_Fit(width(student), width(teacher)) for _ in (0, *layers)]
    if shared:
        fits = fits[:1] * len(fits)
    was_training = student.training
    student.eval()
    for batch in batches:
        own = features(student, batch, hidden=True, attention=False).hidden
        others = features(teacher, teachers_view(batch), hidden=True, attention=False).hidden
        for fit, state, layer in zip(fits, own, (0, *layers), strict=True):
            mine, theirs, valid = paired(state, others[layer], batch)
            fit.add(mine[valid], theirs[valid])
    student.train(was_training)
    return fits[0].solved() if shared else nn.ModuleList(fit.solved() for fit in fits)


class _Fit:
    """Ridge least squares from states (n, inputs) to states (n, outputs), given in any number of parts.

    Only sums of products are kept: the states of all layers of some long texts would fill gigabytes.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        self._rows = 0
        self._squares = torch.zeros(inputs + 1, inputs + 1, dtype=torch.float64)
        self._products = torch.zeros(inputs + 1, outputs, dtype=torch.float64)

    def add(self, x: Tensor, y: Tensor) -> None:
        x = torch.cat([x.double(), torch.ones(len(x), 1, dtype=torch.float64)], dim=1)
        self._rows += len(x)
        self._squares += x.T @ x
        self._products += x.T @ y.double()

    def solved(self) -> nn.Linear:
        """The linear map with bias that has the least squared error with a small penalty."""
        penalty = 1e-3 * self._rows * torch.eye(len(self._squares), dtype=torch.float64)
        solution = torch.linalg.solve(self._squares + penalty, self._products)
        projection = nn.Linear(len(solution) - 1, solution.shape[1])
        projection.weight.copy_(solution[:-1].T)
        projection.bias.copy_(solution[-1])
        return projection
