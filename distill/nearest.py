"""The data-driven layer map: each student layer learns from the teacher layer whose states it is nearest to.

CoFi (arXiv 2204.00408, section 3.2) lets the data choose as training goes on, in rising order. There each of some
teacher layers looks for a student layer; here each student layer looks for a teacher layer.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from distill.layers import rising
from distill.losses import hidden_mse
from distill.outputs import features
from distill.spans import paired, teachers_view

Project = Callable[[Tensor, int], Tensor]
"""States of a student layer, and which, to the teacher's width."""


class NearestLayers(nn.Module):
    """The map as it is now, looked for anew every so many steps on the same examples.

    It depends on the weights at the last look. Kept as a parameter that isn't trained, it is saved and restored with
    them: a resumed stage goes on with the map it had.
    """

    def __init__(self, layers: Sequence[int], sample: Sequence[Mapping[str, Tensor]], every: int) -> None:
        super().__init__()
        self.layers = nn.Parameter(torch.tensor(layers), requires_grad=False)
        self.sample, self.every = sample, every

    def at(self, step: int, student: PreTrainedModel, teacher: PreTrainedModel, project: Project) -> bool:
        """Look, where the step is one for that."""
        if step % self.every:
            return False
        costs = layer_costs(student, teacher, self.sample, project)
        self.layers.copy_(torch.tensor(rising(costs.tolist())))
        return True

    def current(self) -> tuple[int, ...]:
        return tuple(self.layers.tolist())


@torch.no_grad()
def layer_costs(
    student: PreTrainedModel, teacher: PreTrainedModel, batches: Sequence[Mapping[str, Tensor]], project: Project
) -> Tensor:
    """Mean squared difference of every student layer, projected, and every teacher layer: (student, teacher layers).

    Over real tokens, without dropout; the student's mode is put back.
    """
    was_training = student.training
    student.eval()
    total = torch.zeros(student.config.num_hidden_layers, teacher.config.num_hidden_layers, dtype=torch.float64)
    tokens = 0
    for batch in batches:
        batch = {name: tensor.to(student.device) for name, tensor in batch.items()}
        own = features(student, batch, hidden=True, attention=False).hidden
        others = features(teacher, teachers_view(batch), hidden=True, attention=False).hidden
        count = int(paired(own[0], others[0], batch)[2].sum())
        for row, state in enumerate(own[1:]):
            projected = project(state, row + 1)
            for column, other in enumerate(others[1:]):
                total[row, column] += count * float(hidden_mse(*paired(projected, other, batch)))
        tokens += count
    student.train(was_training)
    return total / max(1, tokens)
