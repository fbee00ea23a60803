"""How the parts of a teacher learn: which of them, how fast, with how much memory, and how much each class counts."""

import contextlib
from collections.abc import Iterator

from torch import nn
from transformers import PreTrainedModel

from teacher.adapters import check_adapters, low_rank
from teacher.class_weights import check_class_weights
from teacher.dropout import dropping
from teacher.freezing import Unfreezing, freeze, requirements_kept
from teacher.levels import rate_shares
from teacher.loop_config import LoopConfig
from teacher.options import FinetuneOptions
from teacher.recompute import recomputed
from teacher.tasks.base import Task


def check_practice(options: FinetuneOptions, task: Task) -> None:
    """Raise UserError for what can be known to fail before anything is loaded."""
    check_class_weights(options.teacher_class_weights, task)
    if options.teacher_adapter != "none":
        check_adapters()


@contextlib.contextmanager
def practised(model: PreTrainedModel, options: FinetuneOptions) -> Iterator[None]:
    """Within the block `model` has adapters, and parts that stay as they are, as asked; afterwards it is plain again.

    Raises:
        UserError: it cannot.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(requirements_kept(model))
        if options.teacher_dropout is not None:
            stack.enter_context(dropping(model, options.teacher_dropout))
        if options.teacher_adapter == "lora":
            stack.enter_context(low_rank(model, rank=options.teacher_adapter_rank, seed=options.teacher_seed))
        if options.teacher_freeze is not None:
            freeze(model, options.teacher_freeze)
        if options.teacher_activation_checkpointing:
            stack.enter_context(recomputed(model, option="--teacher-activation-checkpointing"))
        yield


def unfreezing(model: PreTrainedModel, options: FinetuneOptions) -> Unfreezing | None:
    """Which parts learn when; None: all of them from the start."""
    if options.teacher_unfreeze is None:
        return None
    return Unfreezing(model, every=options.teacher_unfreeze, epochs=options.teacher_epochs)


def rates(model: PreTrainedModel, options: FinetuneOptions) -> dict[nn.Parameter, float]:
    """Parameter to its share of the rate."""
    head = (options.teacher_head_rate or options.teacher_learning_rate) / options.teacher_learning_rate
    return rate_shares(model, decay=options.teacher_layer_decay, head=head)


def loop_config(options: FinetuneOptions, precision: str, checkpoint_every: int) -> LoopConfig:
    """The loop of a fine-tuning with these options."""
    return LoopConfig(
        learning_rate=options.teacher_learning_rate,
        epochs=options.teacher_epochs,
        accumulation=options.teacher_accumulation,
        evaluations=options.teacher_evaluations,
        patience=options.teacher_patience,
        precision=precision,
        seed=options.teacher_seed,
        checkpoint_every=checkpoint_every,
    )
