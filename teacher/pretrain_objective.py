"""What pretraining objectives have in common: first weights, picked positions, and figures over held-out text."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, PreTrainedModel

from teacher.objective import Objective

INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class PretrainObjective(Objective):
    """An objective of pretraining with the model that it trains."""

    examples: ClassVar[str]
    """Kind of examples, a key of teacher.examples.EXAMPLES."""
    masked: ClassVar[bool] = True
    """Whether pieces are hidden; then batches have positions (k,), their places in the flattened batch, and labels
    (k,), the pieces that stood there.
    """
    model: Any
    """What is written in the end."""

    @classmethod
    def fresh(cls, config: BertConfig, seed: int, *, generator_width: float) -> Self:
        """With random weights, in the sizes of `config`; `generator_width` is for what has a generator."""
        raise NotImplementedError

    @property
    def models(self) -> dict[str, PreTrainedModel]:
        """All models, by the folder inside the written one: "" for the one that is wanted."""
        return {"": self.model}

    def sums(self, batch: dict[str, Tensor]) -> dict[str, float]:
        """What a batch of held-out text adds to the figures: counts, and losses and right answers summed up."""
        raise NotImplementedError

    def figures(self, sums: Mapping[str, float]) -> dict[str, float]:
        """The sums over all batches as means and counts. Losses are in nats."""
        raise NotImplementedError


def encoder_inputs(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What of a batch an encoder takes."""
    return {name: batch[name] for name in INPUTS}


def masked_mean(losses: Tensor, weights: Tensor | None = None) -> Tensor:
    """sum(loss x weight) / (sum(weight) + 1e-5) over masked positions, as in BERT's released code; None: all 1."""
    if weights is None:
        return losses.sum() / (losses.numel() + 1e-5)
    return (losses * weights).sum() / (weights.sum() + 1e-5)


def at_positions(states: Tensor, positions: Tensor) -> Tensor:
    """Rows (k, d) of states (batch, length, d), at places in the flattened batch."""
    return states.flatten(0, 1).index_select(0, positions)


def class_sums(name: str, logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Cross-entropy and right answers of logits (n, classes), summed: NAME_loss and NAME_accuracy."""
    return {
        f"{name}_loss": float(functional.cross_entropy(logits, labels, reduction="sum")),
        f"{name}_accuracy": int((logits.argmax(dim=-1) == labels).sum()),
    }


def means(sums: Mapping[str, float], prefix: str, count: str) -> dict[str, float]:
    """The sums whose names begin with `prefix`, over the count of that name (at least 1)."""
    return {name: value / max(1.0, sums[count]) for name, value in sums.items() if name.startswith(prefix)}


@torch.no_grad()
def truncated_normal(model: PreTrainedModel, deviation: float) -> None:
    """Redraw every matrix in place; padding rows of embeddings are 0, as transformers has them."""
    for parameter in model.parameters():
        if parameter.ndim > 1:
            nn.init.trunc_normal_(parameter, std=deviation, a=-2 * deviation, b=2 * deviation)
    for module in model.modules():
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            module.weight[module.padding_idx].zero_()


def fresh_model(kind: type[PreTrainedModel], config: Any, seed: int) -> Any:
    """Random weights: matrices from a normal cut at two standard deviations, biases 0, LayerNorm 1."""
    torch.manual_seed(seed)
    model = kind(config)
    truncated_normal(model, config.initializer_range)
    return model
