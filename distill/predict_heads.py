"""What a model's outputs say of a text, by the kind of its head: one class each, one line in the table `HEADS`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from tokenizers import Encoding

from common.errors import UserError
from distill.predict_input import Text

Outputs = Mapping[str, np.ndarray]
"""A text's outputs by name, without the dimension of the batch; along pieces they are padded."""
DIGITS = 6
"""After the point."""


@dataclass(frozen=True, kw_only=True)
class Answering:
    """What is written of each text."""

    top: int | None = None
    """Only the K likeliest classes; all of them if not given."""
    threshold: float = 0.5
    """Probability from which a label of a multi-label model is given."""
    with_text: bool = False
    """Write the texts too."""

    def __post_init__(self) -> None:
        if self.top is not None and self.top < 1:
            raise UserError(f"--top {self.top}: expected 1 or more classes")
        if not 0 <= self.threshold <= 1:
            raise UserError(f"--threshold {self.threshold}: expected 0 to 1")


class Head(ABC):
    """Turns outputs into answers: JSON values by name, the same names for every text."""

    def __init__(self, labels: Sequence[str], options: Answering) -> None:
        self.labels, self.options = labels, options

    @abstractmethod
    def answers(
        self, texts: Sequence[Text], encodings: Sequence[Encoding], outputs: Sequence[Outputs]
    ) -> list[dict[str, Any]]:
        """The answer to each text, given with its pieces and the model's outputs, all in the same order."""

    @abstractmethod
    def columns(self) -> list[str]:
        """Names of the columns in a csv file."""

    @abstractmethod
    def cells(self, answer: Mapping[str, Any]) -> list[Any]:
        """An answer as a row under `columns`."""


class _Classes(Head):
    """Probabilities by class."""

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

    name: ClassVar[str] = "labels"

    def answers(
        self, texts: Sequence[Text], encodings: Sequence[Encoding], outputs: Sequence[Outputs]
    ) -> list[dict[str, Any]]:
        rows = 0.5 * (1 + np.tanh(stacked(outputs) / 2))
        return [{"labels": self._given(row), "probabilities": self.named(row)} for row in rows]

    def _given(self, row: np.ndarray) -> list[str]:
        return [self.labels[place] for place in np.flatnonzero(row >= self.options.threshold).tolist()]

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


SEQUENCE = "ForSequenceClassification"
HEADS: dict[str, type[Head]] = {
    f"{SEQUENCE}: single_label_classification": SingleLabel,
    f"{SEQUENCE}: multi_label_classification": MultiLabel,
    f"{SEQUENCE}: regression": Regression,
}
"""The end of a model's class name, with its problem_type where the class has several."""


def head_for(config: Mapping[str, Any], options: Answering, where: str) -> Head:
    """The head that a model's config.json tells of.

    Raises:
        UserError: the model has none of these heads, or no labels.
    """
    architecture = str((config.get("architectures") or ["none"])[0])
    labels = [str(name) for _, name in sorted((config.get("id2label") or {}).items(), key=lambda pair: int(pair[0]))]
    key = next((key for key in HEADS if architecture.endswith(key)), None)
    if architecture.endswith(SEQUENCE):
        kind = config.get("problem_type") or ("regression" if len(labels) == 1 else "single_label_classification")
        key = f"{SEQUENCE}: {kind}"
    if key not in HEADS:
        raise UserError(
            f"{where} is a {architecture}: a model fine-tuned on a task was expected, with one of the heads "
            f"{', '.join(HEADS)}"
        )
    if not labels:
        raise UserError(f"{where} has no labels: id2label in its config.json should name every output")
    return HEADS[key](labels, options)
