"""Answers of heads that say one thing of a whole text or pair: a class, several labels, or a number."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from tokenizers import Encoding

from common.errors import UserError
from distill.predict_answers import DIGITS, Head, Outputs
from distill.predict_texts import Text

THRESHOLD = 0.5
"""Probability from which a label counts where none is given."""


class _Classes(Head):
    """Probabilities by class."""

    heeds: ClassVar[tuple[str, ...]] = ("top",)
    name: ClassVar[str]
    """Of what the probabilities lead to."""

    def columns(self) -> list[str]:
        if self.options.top is None:
            return [self.name, *(f"probability_{label}" for label in self.labels)]
        ranks = range(1, self.kept + 1)
        return [self.name, *(name for rank in ranks for name in (f"class_{rank}", f"probability_{rank}"))]

    @property
    def kept(self) -> int:
        return min(self.options.top or len(self.labels), len(self.labels))

    def cells(self, answer: Mapping[str, Any]) -> list[Any]:
        found = answer["probabilities"]
        if self.options.top is None:
            return [self.cell(answer), *found.values()]
        return [self.cell(answer), *(value for pair in found.items() for value in pair)]

    def cell(self, answer: Mapping[str, Any]) -> Any:
        return answer[self.name]

    def named(self, probabilities: np.ndarray) -> dict[str, float]:
        """Label to probability: in the model's order, or the likeliest ones first."""
        places = range(len(self.labels))
        if self.options.top is not None:
            places = np.argsort(-probabilities, kind="stable")[: self.kept].tolist()
        values = probabilities.tolist()
        return {self.labels[place]: round(values[place], DIGITS) for place in places}


class SingleLabel(_Classes):
    """One class a text, by softmax."""

    name: ClassVar[str] = "label"

    def answers(
        self, texts: Sequence[Text], encodings: Sequence[Encoding], outputs: Sequence[Outputs]
    ) -> list[dict[str, Any]]:
        logits = stacked(outputs)
        powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
        rows = powers / powers.sum(axis=-1, keepdims=True)
        return [{"label": self.labels[int(row.argmax())], "probabilities": self.named(row)} for row in rows]


class MultiLabel(_Classes):
    """Every label whose own probability, by the logistic function, reaches the threshold: none, one or several."""

    heeds: ClassVar[tuple[str, ...]] = ("top", "threshold")
    name: ClassVar[str] = "labels"

    def answers(
        self, texts: Sequence[Text], encodings: Sequence[Encoding], outputs: Sequence[Outputs]
    ) -> list[dict[str, Any]]:
        rows = 0.5 * (1 + np.tanh(stacked(outputs) / 2))
        return [{"labels": self._given(row), "probabilities": self.named(row)} for row in rows]

    def _given(self, row: np.ndarray) -> list[str]:
        least = THRESHOLD if self.options.threshold is None else self.options.threshold
        return [self.labels[place] for place in np.flatnonzero(row >= least).tolist()]

    def cell(self, answer: Mapping[str, Any]) -> Any:
        return "|".join(answer["labels"])


class Regression(Head):
    """A number a text."""

    def answers(
        self, texts: Sequence[Text], encodings: Sequence[Encoding], outputs: Sequence[Outputs]
    ) -> list[dict[str, Any]]:
        return [{"score": round(value, DIGITS)} for value in stacked(outputs)[:, 0].tolist()]

    def columns(self) -> list[str]:
        return ["score"]

    def cells(self, answer: Mapping[str, Any]) -> list[Any]:
        return [answer["score"]]


def stacked(outputs: Sequence[Outputs]) -> np.ndarray:
    """The logits of texts that have one row each, (n, outputs) in double precision.

    Raises:
        UserError: one is no number.
    """
    logits = np.stack([row["logits"] for row in outputs]).astype(np.float64)
    if not np.isfinite(logits).all():
        raise UserError("the model's outputs are no numbers (NaN or infinity): its weights are damaged, train it again")
    return logits
