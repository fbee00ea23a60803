"""Masked language modelling, alone or with a question about pairs: BERT, RoBERTa's recipe, ALBERT."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertForMaskedLM, BertForPreTraining

from teacher.batches import on_full_rows
from teacher.pretrain_objective import (
    PretrainObjective,
    at_positions,
    class_sums,
    encoder_inputs,
    fresh_model,
    masked_mean,
    means,
)
from teacher.vocabulary_loss import cross_entropies


class Mlm(PretrainObjective):
    """Masked language modelling of single segments (RoBERTa, arXiv 1907.11692): a BERT without pooler.

    A batch has input_ids, attention_mask, token_type_ids (batch, length); positions (k,), places of the masked pieces
    in the flattened batch; labels (k,), the pieces that stood there.
    """

    examples = "segments"
    complete = True

    def __init__(self, model: BertForMaskedLM) -> None:
        super().__init__()
        self.model = model
        self.weights = {"mlm": 1.0}

    @classmethod
    def fresh(cls, config: BertConfig, seed: int, *, generator_width: float) -> Self:
        return cls(fresh_model(BertForMaskedLM, config, seed))

    def tables(self) -> list[nn.Embedding]:
        return [self.model.get_input_embeddings()]

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"mlm": _masked_loss(self._scores(batch), batch)}

    def counts(self, batch: dict[str, Tensor]) -> dict[str, int]:
        return {"mlm": len(batch["labels"])}

    def logits(self, batch: dict[str, Tensor]) -> Tensor:
        """fp32 logits (k, vocabulary) at the masked positions only."""
        return self._scores(batch).float()

    def _scores(self, batch: dict[str, Tensor]) -> Tensor:
        """In the precision that the model computes in."""
        return _masked_scores(self.model, self.model.bert(**encoder_inputs(batch)).last_hidden_state, batch)

    def sums(self, batch: dict[str, Tensor]) -> dict[str, float]:
        counts = {"masked": len(batch["labels"]), "sequences": len(batch["input_ids"])}
        return class_sums("mlm", self.logits(batch), batch["labels"]) | counts

    def figures(self, sums: Mapping[str, float]) -> dict[str, float]:
        return means(sums, "mlm", "masked") | {name: sums[name] for name in ("masked", "sequences")}


class MlmNsp(PretrainObjective):
    """Masked language modelling and next-sentence prediction (BERT, arXiv 1810.04805, section 3.1).

    A batch is as that of `Mlm`, and has next_labels (batch,), 0 for the next sentence.
    """

    examples = "nsp"
    complete = True
    term: ClassVar[str] = "nsp"
    """What the question about the pair is called."""

    def __init__(self, model: BertForPreTraining) -> None:
        super().__init__()
        self.model = model
        self.weights = {"mlm": 1.0, self.term: 1.0}

    @classmethod
    def fresh(cls, config: BertConfig, seed: int, *, generator_width: float) -> Self:
        return cls(fresh_model(BertForPreTraining, config, seed))

    def tables(self) -> list[nn.Embedding]:
        return [self.model.get_input_embeddings()]

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        scores, relations = self._scores(batch)
        return {
            "mlm": _masked_loss(scores, batch),
            self.term: functional.cross_entropy(relations, batch["next_labels"]),
        }

    def counts(self, batch: dict[str, Tensor]) -> dict[str, int]:
        return {"mlm": len(batch["labels"])}

    def logits(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """fp32 logits: (k, vocabulary) at the masked positions only, and (batch, 2) of the pair."""
        scores, relations = self._scores(batch)
        return scores.float(), relations

    def _scores(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The former in the precision that the model computes in."""
        output = self.model.bert(**encoder_inputs(batch))
        scores = _masked_scores(self.model, output.last_hidden_state, batch)
        return scores, self.model.cls.seq_relationship(output.pooler_output).float()

    def sums(self, batch: dict[str, Tensor]) -> dict[str, float]:
        scores, relations = self.logits(batch)
        counts = {"masked": len(scores), "pairs": len(relations), "ones": int(batch["next_labels"].sum())}
        return (
            class_sums("mlm", scores, batch["labels"]) | class_sums(self.term, relations, batch["next_labels"]) | counts
        )

    def figures(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Also the accuracy of the more frequent label alone, NSP_majority."""
        majority = max(sums["ones"], sums["pairs"] - sums["ones"]) / sums["pairs"]
        counts = {name: sums[name] for name in ("masked", "pairs")}
        return (
            means(sums, "mlm", "masked")
            | means(sums, self.term, "pairs")
            | counts
            | {f"{self.term}_majority": majority}
        )


class MlmSop(MlmNsp):
    """Masked language modelling and sentence order (ALBERT, arXiv 1909.11942, section 3.1), with a BERT.

    next_labels is 1 where the two segments are swapped.
    """

    examples = "sop"
    term = "sop"


def _masked_scores(model: Any, states: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
    """Logits (k, vocabulary) at the masked positions, in the precision that the model computes in."""
    return on_full_rows(model.cls.predictions, at_positions(states, batch["positions"]))


def _masked_loss(scores: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
    return masked_mean(cross_entropies(scores, batch["labels"]))
