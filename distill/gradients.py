"""How strongly each loss term pulls at the student."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

FEWEST_STEPS = 10
NAME = "gradient norm"


def due(step: int, total: int) -> bool:
    """Whether norms are taken at a step counted from 0: at about a hundred of a stage's steps, at most every tenth."""
    return step % max(FEWEST_STEPS, total // 100) == 0


def gradient_norms(terms: Mapping[str, Tensor], parameters: Sequence[nn.Parameter]) -> dict[str, float]:
    """Global norm of each unweighted term's gradient to `parameters`, by name; the graph and every .grad stay.

    A term that reaches none of them has norm 0.
    """
    norms = {}
    # The forward pass has cast what it wanted; a backward pass must not be cast again.
    with torch.autocast(parameters[0].device.type, enabled=False):
        for name, term in terms.items():
            found = torch.autograd.grad(term, parameters, retain_graph=True, allow_unused=True)
            gradients = [gradient.float() for gradient in found if gradient is not None]
            norms[f"{NAME} {name}"] = float(nn.utils.get_total_norm(gradients)) if gradients else 0.0
    return norms
