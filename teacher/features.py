"""Frozen features: a classifier on the states of an encoder that stays as it is (BERT, arXiv 1810.04805, table 7).

A text is the mean of its states over its real pieces, [CLS] and [SEP] among them, in every layer. Summing layers and
averaging over pieces may be done in either order, so all views start from one such array.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from teacher.batches import Batches, sorted_batches
from teacher.loop import Outcome, train
from teacher.loop_config import LoopConfig
from teacher.objective import Objective
from teacher.prepare import Prepared, in_order, model_inputs
from teacher.tasks.base import Encoded, Task

WEIGHTED = "weighted"

VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "embeddings": lambda states: states[:, 0],
    "last": lambda states: states[:, -1],
    "concatenated": lambda states: states[:, 1:][:, -4:].flatten(1),
    "summed": lambda states: states[:, 1:][:, -4:].sum(dim=1),
    WEIGHTED: lambda states: states,
}
"""States (n, layers + 1, width), the embeddings first, to features (n, size); those of WEIGHTED are weighted later."""

EPOCHS, BATCH, RATE = 20, 128, 5e-3
"""Of the classifier."""


def frozen_states(model: PreTrainedModel, prepared: Prepared, split: str) -> np.ndarray:
    """The states (n, layers + 1, width) of a whole split in its order, fp32, each the mean over a text's real pieces.

    `model` is an encoder without a head, in evaluation mode.
    """
    encoded = prepared.splits[split]
    compute = partial(_states, model, prepared, encoded)
    return in_order(compute, sorted_batches(encoded.lengths, 64), device=model.device, label=f"states of {split}")


@torch.inference_mode()
def _states(model: PreTrainedModel, prepared: Prepared, encoded: Encoded, indices: np.ndarray) -> np.ndarray:
    batch = prepared.task.collate(encoded, list(indices), prepared.pad)
    inputs = {name: tensor.to(model.device) for name, tensor in model_inputs(model, batch).items()}
    layers = torch.stack(model(**inputs, output_hidden_states=True).hidden_states, dim=1)
    real = inputs["attention_mask"][:, None, :, None].to(layers.dtype)
    return ((layers * real).sum(dim=2) / real.sum(dim=2)).cpu().numpy()


class FrozenClassifier(Objective):
    """A linear layer on a view of states, each entry of which is standardised by the training texts first.

    For WEIGHTED the features are sum_l s_l h_l over all layers l, embeddings among them, with s = softmax of weights
    that are learned beside the layer, equal at first (ELMo, arXiv 1802.05365, equation 1; its scale is in the layer).
    """

    complete = True

    def __init__(self, task: Task, view: str, states: np.ndarray) -> None:
        """`states` (n, layers + 1, width) are those of the training texts."""
        super().__init__()
        self.task, self.weights, self._view = task, {"hard": 1.0}, VIEWS[view]
        self.mean: Tensor
        self.deviation: Tensor
        self.register_buffer("mean", torch.from_numpy(states.mean(axis=0)))
        self.register_buffer("deviation", torch.from_numpy(states.std(axis=0).clip(min=1e-6)))
        self.mix = nn.Parameter(torch.zeros(states.shape[1])) if view == WEIGHTED else None
        self.linear = nn.Linear(self.features(torch.from_numpy(states[:1])).shape[1], task.head()["num_labels"])
        # A convex problem (but for the mix) needs no luck to start with.
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def features(self, states: Tensor) -> Tensor:
        """(n, layers + 1, width) to (n, size)."""
        seen = self._view((states - self.mean) / self.deviation)
        return seen if self.mix is None else torch.einsum("l,nlh->nh", self.mix.softmax(dim=0), seen)

    def logits(self, states: Tensor) -> Tensor:
        """(n, outputs), in the units of the labels."""
        shift, scale = self.task.label_scale()
        return shift + scale * self.linear(self.features(states))

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"hard": self.task.loss(self.logits(batch["states"]), batch["labels"])}

    @torch.inference_mode()
    def answers(self, states: np.ndarray) -> np.ndarray:
        """Logits (n, outputs)."""
        return self.logits(torch.from_numpy(states).to(self.mean.device)).cpu().numpy()


def train_on_states(
    classifier: FrozenClassifier, prepared: Prepared, states: dict[str, np.ndarray], folder: Path, *, seed: int
) -> Outcome:
    """Train in place on the split "train", keeping the weights that do best on "select"; `states` is by split."""
    labels = {split: prepared.splits[split].labels for split in states}
    metric = prepared.task.data.metric

    def collate(indices: Sequence[int], step: int) -> dict[str, Tensor]:
        chosen = np.asarray(indices)
        return {
            "states": torch.from_numpy(states["train"][chosen]),
            "labels": torch.from_numpy(labels["train"][chosen]),
        }

    def evaluate() -> float:
        value = prepared.metrics(classifier.answers(states["select"]), "select")[metric]
        return prepared.task.signed(value)

    batches = Batches(lengths=np.ones(len(labels["train"])), batch_size=BATCH, seed=seed, collate=collate)
    config = LoopConfig(learning_rate=RATE, epochs=EPOCHS, precision="fp32", seed=seed)
    return train(classifier, batches, config, folder, label="classifier on frozen states", evaluate=evaluate)
