"""Training on labels: a model learns a task by the task's own loss."""

import contextlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from torch import Tensor, nn
from transformers import PreTrainedModel

from teacher.attention import training_attention
from teacher.class_weights import class_weights, weighted_loss
from teacher.freezing import Unfreezing
from teacher.head import standardised_head
from teacher.history import Listen
from teacher.loop import Outcome, train
from teacher.loop_config import LoopConfig, resolve_precision
from teacher.objective import Objective
from teacher.options import FinetuneOptions
from teacher.practice import practised, rates, unfreezing
from teacher.prepare import Prepared, model_inputs, output_logits
from teacher.rows import only_rows
from teacher.tasks.base import Task


class Supervised(Objective):
    """A model and the task's own loss.

    Args:
        model: what learns.
        task: what it learns.
        rates: parameters to their share of the learning rate; the others have all of it.
        unfreezing: which parameters learn when; None: all, from the start.
        class_weights: what an example counts, by its label (see teacher.class_weights); None: all the same.
        entries: (n,) what the loss is a mean over of each training example; None: one each.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        task: Task,
        *,
        rates: Mapping[nn.Parameter, float] | None = None,
        unfreezing: Unfreezing | None = None,
        class_weights: Tensor | None = None,
        entries: np.ndarray | None = None,
    ) -> None:
        super().__init__()
        self.model, self.task, self.weights = model, task, {"hard": 1.0}
        self._rates, self._unfreezing, self._entries = rates or {}, unfreezing, entries
        self.class_weights: Tensor | None
        self.register_buffer("class_weights", class_weights, persistent=False)

    def shares(self, part: np.ndarray, batch: np.ndarray) -> dict[str, float]:
        if self._entries is None:
            return {}
        return {"hard": int(self._entries[part].sum()) / max(1, int(self._entries[batch].sum()))}

    def rate_shares(self) -> Mapping[nn.Parameter, float]:
        return self._rates

    def at(self, step: int, total: int) -> None:
        if self._unfreezing is not None:
            self._unfreezing.at(step, total)

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        logits = output_logits(self.model(**model_inputs(self.model, batch)), batch).float()
        if self.class_weights is None:
            return {"hard": self.task.loss(logits, batch["labels"])}
        return {"hard": weighted_loss(logits, batch["labels"], self.class_weights)}


def finetune(
    model: PreTrainedModel,
    prepared: Prepared,
    config: LoopConfig,
    options: FinetuneOptions,
    folder: Path,
    *,
    listen: Listen | None = None,
) -> Outcome:
    """Train `model` in place on the split "train", keeping the weights that do best on "select".

    Where there is no "select" the last weights are kept. `listen` is told every row of the history; what it raises ends
    the training.
    """
    batches = prepared.batches("train", options.teacher_batch, config.seed, tokens=options.teacher_batch_tokens)
    precision = resolve_precision(config.precision)
    selects = "select" in prepared.splits
    ids = prepared.occurring("train", *(["select"] if selects else []))
    with contextlib.ExitStack() as stack:
        for change in (training_attention(model), only_rows(model, ids), standardised_head(model, prepared.task)):
            stack.enter_context(change)
        stack.enter_context(practised(model, options))
        objective = Supervised(
            model,
            prepared.task,
            rates=rates(model, options),
            unfreezing=unfreezing(model, options),
            class_weights=class_weights(options.teacher_class_weights, prepared),
            entries=prepared.task.weights(prepared.splits["train"]),
        )
        return train(
            objective,
            batches,
            config,
            folder,
            label="teacher",
            evaluate=(lambda: prepared.score(model, "select", precision)) if selects else None,
            listen=listen,
        )
