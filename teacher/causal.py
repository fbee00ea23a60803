"""Left-to-right language modelling with a BERT whose attention is causal: the GPT-style ablation."""

import copy
import math
from collections.abc import Mapping
from typing import Self

from torch import Tensor, nn
from transformers import BertConfig, BertLMHeadModel

from teacher.batches import on_full_rows
from teacher.pretrain_objective import PretrainObjective, class_sums, encoder_inputs, fresh_model, means
from teacher.vocabulary_loss import cross_entropies

MOST = 700.0
"""Nats whose exponential a float still holds."""


class Ltr(PretrainObjective):
    """Every piece from the ones before it (BERT, arXiv 1810.04805, section 5.1: LTR & no NSP).

    A batch has input_ids, attention_mask, token_type_ids (batch, length) and nothing hidden. [CLS] begins a segment and
    is not predicted; the [SEP] at its end is.
    """

    examples = "segments"
    masked = False
    complete = True

    def __init__(self, model: BertLMHeadModel) -> None:
        super().__init__()
        self.model = model
        self.weights = {"ltr": 1.0}

    @classmethod
    def fresh(cls, config: BertConfig, seed: int, *, generator_width: float) -> Self:
        causal = copy.deepcopy(config)
        causal.is_decoder = True
        return cls(fresh_model(BertLMHeadModel, causal, seed))

    def tables(self) -> list[nn.Embedding]:
        return [self.model.get_input_embeddings()]

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """The mean over all pieces that have one before them, padding aside."""
        scores, following = self._scores(batch)
        return {"ltr": cross_entropies(scores, following).mean()}

    def counts(self, batch: dict[str, Tensor]) -> dict[str, int]:
        return {"ltr": int(batch["attention_mask"][:, 1:].sum())}

    def logits(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """fp32 logits (n, vocabulary) at all real positions but the last ones, and the pieces that follow (n,)."""
        scores, following = self._scores(batch)
        return scores.float(), following

    def _scores(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The former in the precision that the model computes in."""
        ids, real = batch["input_ids"], batch["attention_mask"]
        states = self.model.bert(**encoder_inputs(batch), use_cache=False).last_hidden_state
        followed = real[:, 1:].bool()
        return on_full_rows(self.model.cls.predictions, states[:, :-1][followed]), ids[:, 1:][followed]

    def sums(self, batch: dict[str, Tensor]) -> dict[str, float]:
        scores, following = self.logits(batch)
        return class_sums("ltr", scores, following) | {"predicted": len(scores), "sequences": len(batch["input_ids"])}

    def figures(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Also the perplexity, e to the loss."""
        found = means(sums, "ltr", "predicted")
        counts = {name: sums[name] for name in ("predicted", "sequences")}
        # A run that diverged has losses of which it would overflow.
        perplexity = math.inf if found["ltr_loss"] > MOST else math.exp(found["ltr_loss"])
        return found | {"ltr_perplexity": perplexity} | counts
