"""Replaced token detection: a small generator fills in masked pieces, a discriminator finds those that are wrong."""

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional
from transformers import BertConfig, ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining, PreTrainedModel

from teacher.batches import on_full_rows
from teacher.dropout import uniforms
from teacher.pretrain_objective import (
    PretrainObjective,
    at_positions,
    class_sums,
    encoder_inputs,
    fresh_model,
    masked_mean,
    means,
)

DETECTION = 50.0
"""Weight of the discriminator's loss; the generator's has 1."""


class Rtd(PretrainObjective):
    """ELECTRA (arXiv 2003.10555, section 2): both models are trained together, the discriminator is kept.

    A batch is as that of `teacher.masked_language.Mlm`. The generator is trained by its masked loss alone: no gradient
    passes through the sampled pieces. A sample that equals the original counts as not replaced. The whole embedding
    layer is one for both, in the discriminator's width; the generator projects it to its own.
    """

    examples = "segments"
    complete = True

    def __init__(self, model: ElectraForPreTraining, generator: ElectraForMaskedLM) -> None:
        super().__init__()
        self.model, self.generator = model, generator
        self.weights = {"generator": 1.0, "rtd": DETECTION}
        generator.electra.embeddings = model.electra.embeddings
        generator.tie_weights()

    @classmethod
    def fresh(cls, config: BertConfig, seed: int, *, generator_width: float) -> Self:
        discriminator = fresh_model(ElectraForPreTraining, electra_config(config), seed)
        return cls(discriminator, fresh_model(ElectraForMaskedLM, electra_config(config, generator_width), seed + 1))

    @property
    def models(self) -> dict[str, PreTrainedModel]:
        return {"": self.model, "generator": self.generator}

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        scores, detected, replaced = self.logits(batch)
        guessed = functional.cross_entropy(scores, batch["labels"], reduction="none")
        return {
            "generator": masked_mean(guessed),
            "rtd": functional.binary_cross_entropy_with_logits(detected, replaced.float()),
        }

    def counts(self, batch: dict[str, Tensor]) -> dict[str, int]:
        return {"generator": len(batch["labels"]), "rtd": int(batch["attention_mask"].sum())}

    def logits(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """fp32 logits (k, vocabulary) of the generator at the masked positions, and (n,) of the discriminator.

        The latter are over all n real pieces of the filled-in text; with them which of these are replaced, (n,).
        """
        scores = self.generator_logits(batch)
        filled, replaced = fill_in(batch, sample(scores.detach()))
        states = self.model.electra(**encoder_inputs(batch) | {"input_ids": filled})
        real = batch["attention_mask"].bool()
        detected = self.model.discriminator_predictions(states.last_hidden_state).float()
        return scores, detected[real], replaced[real]

    def generator_logits(self, batch: dict[str, Tensor]) -> Tensor:
        """fp32 logits (k, vocabulary) at the masked positions only."""
        states = self.generator.electra(**encoder_inputs(batch)).last_hidden_state
        return on_full_rows(self._head, at_positions(states, batch["positions"])).float()

    def _head(self, states: Tensor) -> Tensor:
        return self.generator.generator_lm_head(self.generator.generator_predictions(states))

    def sums(self, batch: dict[str, Tensor]) -> dict[str, float]:
        scores, detected, replaced = self.logits(batch)
        loss = functional.binary_cross_entropy_with_logits(detected, replaced.float(), reduction="sum")
        return class_sums("generator", scores, batch["labels"]) | {
            "rtd_loss": float(loss),
            "rtd_accuracy": int(((detected > 0) == replaced).sum()),
            "replaced": int(replaced.sum()),
            "masked": len(scores),
            "tokens": len(detected),
            "sequences": len(batch["input_ids"]),
        }

    def figures(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Also replaced_share of all real pieces, and rtd_majority, the accuracy of calling none of them replaced."""
        share = sums["replaced"] / sums["tokens"]
        counts = {name: sums[name] for name in ("masked", "tokens", "sequences")}
        found = means(sums, "generator", "masked") | means(sums, "rtd", "tokens")
        return found | {"rtd_majority": max(share, 1 - share), "replaced_share": share} | counts


def sample(scores: Tensor) -> Tensor:
    """One piece a row of logits (k, vocabulary), by their softmax, as (k,): without gradient.

    A uniform number is looked up in the summed-up probabilities. The numbers come from the stream that a step has for
    dropout, so that a resumed run samples the same pieces, in two threads too.
    """
    sums = scores.softmax(dim=-1).cumsum(dim=-1)
    # A sum of many small numbers is not 1 to the last bit.
    levels = uniforms(len(scores), scores.device)[:, None] * sums[:, -1:]
    return torch.searchsorted(sums, levels, right=True).squeeze(-1).clamp_max(scores.shape[-1] - 1)


def fill_in(batch: Mapping[str, Tensor], pieces: Tensor) -> tuple[Tensor, Tensor]:
    """The text with `pieces` (k,) at its masked positions, and which of them are not the original: (batch, length)."""
    filled = batch["input_ids"].flatten().index_copy(0, batch["positions"], pieces)
    replaced = torch.zeros_like(filled, dtype=torch.bool).index_copy(0, batch["positions"], pieces != batch["labels"])
    return filled.view_as(batch["input_ids"]), replaced.view_as(batch["input_ids"])


def electra_config(config: BertConfig, width: float = 1.0) -> ElectraConfig:
    """An ELECTRA of a BERT's sizes, or one of a share of its width: of equal depth, with heads of the same size.

    Embeddings keep the full width. The width is rounded to whole heads; one below a head has one, of a multiple of 8.
    """
    head = config.hidden_size // config.num_attention_heads
    hidden = config.hidden_size if width == 1 else generator_hidden(config.hidden_size, head, width)
    sizes: dict[str, Any] = {
        "hidden_size": hidden,
        "num_attention_heads": max(1, hidden // head),
        "intermediate_size": config.intermediate_size * hidden // config.hidden_size,
    }
    names = ("vocab_size", "num_hidden_layers", "max_position_embeddings", "type_vocab_size", "pad_token_id")
    dropouts = ("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range", "layer_norm_eps")
    same = {name: getattr(config, name) for name in (*names, *dropouts)}
    return ElectraConfig(**sizes, **same, embedding_size=config.hidden_size)


def generator_hidden(hidden: int, head: int, width: float) -> int:
    """Width of a generator.

    >>> generator_hidden(256, 64, 0.25), generator_hidden(512, 64, 1 / 3), generator_hidden(128, 64, 0.25)
    (64, 192, 32)
    """
    if hidden * width >= head:
        return head * round(hidden * width / head)
    return max(8, 8 * round(hidden * width / 8))
