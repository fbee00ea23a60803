"""What a student learns from a teacher on text without labels: DistilBERT's triple loss, TinyBERT's layer losses."""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from common.masked import masked_logits
from distill import losses
from distill.outputs import Features, features
from students.build import encoder
from teacher.attention import use_training_attention
from teacher.batches import on_full_rows
from teacher.objective import Objective


class TextDistiller(Objective):
    """Losses between a student and a teacher that both read the same text, masked or not.

    A batch has input_ids, attention_mask, token_type_ids (b, l); for "soft" and "mlm" also positions (k,), places of
    the masked pieces in the flattened batch, rising, and labels (k,), the pieces that stood there.

    Args:
        student: with a head for masked pieces where `weights` has "soft" or "mlm".
        teacher: BERT, with such a head where `weights` has "soft"; stays as it is.
        weights: term to weight, of embedding, hidden, attention, cosine, soft, mlm.
        layers: the teacher layer of each student layer, counted from 1.
        projection: student width to teacher width; the identity where they are equal.
        temperature: of "soft".
    """

    def __init__(
        self,
        student: PreTrainedModel,
        teacher: PreTrainedModel,
        *,
        weights: Mapping[str, float],
        layers: tuple[int, ...],
        projection: nn.Module,
        temperature: float,
    ) -> None:
        super().__init__()
        self.weights = dict(weights)
        # A head that is not learned is no part of what is trained and kept in checkpoints.
        self.student = student if {"soft", "mlm"} & self.weights.keys() else encoder(student)
        self.projection, self._layers, self._temperature = projection, layers, temperature
        # In a tuple, so that torch does not register it: nothing of the teacher may be trained, clipped or saved.
        self._teacher = (teacher,)
        use_training_attention(encoder(student))
        use_training_attention(encoder(teacher))
        teacher.eval()
        teacher.requires_grad_(False)

    def follow(self, device: torch.device) -> None:
        self._teacher[0].to(device)  # type: ignore[arg-type]

    def counts(self, batch: dict[str, Tensor]) -> dict[str, int]:
        """Pieces, pairs of pieces of one sequence, or masked pieces."""
        lengths = batch["attention_mask"].sum(dim=1)
        others = {"attention": int(lengths.square().sum()), "mlm": len(batch["labels"]) if "labels" in batch else 0}
        pieces = int(lengths.sum())
        return {name: others.get(name, pieces) for name in self.weights}

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        (teacher,) = self._teacher
        if teacher.training:
            raise RuntimeError("the teacher must be in evaluation mode at every step")
        attention = "attention" in self.weights
        with torch.no_grad():
            goal = features(encoder(teacher), batch, hidden=True, attention=attention)
        own = features(encoder(self.student), batch, hidden=True, attention=attention)
        terms = self._layer_terms(own, goal, batch["attention_mask"].bool())
        if {"soft", "mlm"} & self.weights.keys():
            terms |= self._masked_terms(own.hidden[-1], goal.hidden[-1], batch)
        return {name: terms[name] for name in self.weights}

    def _layer_terms(self, own: Features, goal: Features, valid: Tensor) -> dict[str, Tensor]:
        """TinyBERT's (arXiv 1909.10351, equations 7 to 9), summed over layers, and DistilBERT's cosine."""
        terms: dict[str, Tensor] = {}
        if "embedding" in self.weights:
            terms["embedding"] = losses.hidden_mse(self.projection(own.hidden[0]), goal.hidden[0], valid)
        if "hidden" in self.weights:
            pairs = zip(own.hidden[1:], self._layers, strict=True)
            terms["hidden"] = torch.stack(
                [losses.hidden_mse(self.projection(state), goal.hidden[layer], valid) for state, layer in pairs]
            ).sum()
        if "attention" in self.weights:
            numbered = enumerate(self._layers, start=1)
            terms["attention"] = torch.stack(
                [losses.attention_mse(own.scores(number), goal.scores(layer), valid) for number, layer in numbered]
            ).sum()
        if "cosine" in self.weights:
            terms["cosine"] = losses.hidden_cosine(self.projection(own.hidden[-1]), goal.hidden[-1], valid)
        return terms

    def _masked_terms(self, own: Tensor, goal: Tensor, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """DistilBERT's (arXiv 1910.01108, section 3): soft logits of all real tokens, labels of the masked ones.

        Its released code takes the divergence over every real token; `restrict_ce_to_mask` is off there.
        """
        if "soft" not in self.weights:
            masked = own.flatten(0, 1).index_select(0, batch["positions"])
            return {"mlm": _mlm(_logits(self.student, masked), batch["labels"])}
        valid = batch["attention_mask"].bool()
        logits = _logits(self.student, own[valid])
        with torch.no_grad():
            goal_logits = _logits(self._teacher[0], goal[valid])
        terms = {"soft": losses.soft_logits(logits, goal_logits, self._temperature)}
        if "mlm" in self.weights:
            # Row of each masked piece among the real ones.
            rows = valid.flatten().cumsum(0)[batch["positions"]] - 1
            terms["mlm"] = _mlm(logits[rows], batch["labels"])
        return terms


def _logits(model: PreTrainedModel, states: Tensor) -> Tensor:
    """Over the vocabulary, for rows of last hidden states, whose number is another in every batch."""
    return on_full_rows(partial(masked_logits, model), states)


def _mlm(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy over the masked pieces; 0 where a batch has none."""
    return functional.cross_entropy(logits.float(), labels, reduction="sum") / max(1, len(labels))
