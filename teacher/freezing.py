"""Layers that stay as they are for a while: from below for good, or from above until their turn comes."""

import contextlib
from collections.abc import Iterator

from transformers import PreTrainedModel

from common.errors import UserError
from teacher.levels import levels


@contextlib.contextmanager
def requirements_kept(model: PreTrainedModel) -> Iterator[None]:
    """After the block every parameter learns, or does not, as before it."""
    before = {parameter: parameter.requires_grad for parameter in model.parameters()}
    try:
        yield
    finally:
        for parameter in model.parameters():
            parameter.requires_grad_(before.get(parameter, True))


def freeze(model: PreTrainedModel, layers: int) -> None:
    """Let the embeddings and the first `layers` layers of a model with a head stay as they are.

    Layers that share their weights, as ALBERT's do, count as one.

    Raises:
        UserError: it has fewer layers.
    """
    places = levels(model)
    most = max(places.values()) - 1
    if layers > most:
        raise UserError(
            f"--teacher-freeze {layers}: the model has {most} layers of their own weights, 0 to {most} can be"
        )
    for parameter, place in places.items():
        if place <= layers:
            parameter.requires_grad_(False)


class Unfreezing:
    """Gradual unfreezing (Howard and Ruder, arXiv 1801.06146, section 3.3): the head learns first, then one more level.

    What is frozen when it is made stays so. A level is a layer; the last one is that of the embeddings.

    Args:
        model: with a head.
        every: epochs from one level to the next.
        epochs: of the training.
    """

    def __init__(self, model: PreTrainedModel, *, every: float, epochs: float) -> None:
        places = levels(model)
        top = max(places.values())
        self._depths = {parameter: top - place for parameter, place in places.items() if parameter.requires_grad}
        self._parts = epochs / every

    def at(self, step: int, total: int) -> None:
        """For optimizer step `step`, from 0, of `total`."""
        # Rounding must not put off a level whose step has come.
        reached = int(step * self._parts / total + 1e-9)
        for parameter, depth in self._depths.items():
            parameter.requires_grad_(depth <= reached)
