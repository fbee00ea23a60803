"""What every kind of head gives for predictions: answers to texts, from a model's outputs."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from tokenizers import Encoding

from common.errors import UserError
from distill.predict_texts import Text

Outputs = Mapping[str, np.ndarray]
"""A text's outputs by name, without the dimension of the batch; along pieces they are padded."""
DIGITS = 6
"""After the point."""


@dataclass(frozen=True, kw_only=True)
class Answering:
    """What is written of each text."""

    top: int | None = None
    """Only the K likeliest classes; all of them if not given."""
    threshold: float | None = None
    """Probability from which a label of a multi-label model is given; 0.5 if not given."""
    with_text: bool = False
    """Write the texts too."""

    def __post_init__(self) -> None:
        if self.top is not None and self.top < 1:
            raise UserError(f"--top {self.top}: expected 1 or more classes")
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise UserError(f"--threshold {self.threshold}: expected 0 to 1")


class Head(ABC):
    """Turns outputs into answers: JSON values by name, the same names for every text."""

    rows: ClassVar[Literal["texts", "windows", "choices"]] = "texts"
    """What a model reads at once. With "windows" texts are questions about their pairs, and long pairs are read in
    several of them; with "choices" each is read with the text. A text's outputs are then those of all of its rows,
    (rows, ...).
    """
    heeds: ClassVar[tuple[str, ...]] = ()
    """The entries of `Answering` that not every kind of head has a use for, and this one has."""
    pairs: ClassVar[bool] = True
    """Whether a model with this head may read two texts at once."""
    places: ClassVar[Literal["", "text", "pair"]] = ""
    """Which of the two texts answers have places in. It is read as it stands, so that they are places in the user's."""

    def __init__(self, labels: Sequence[str], options: Answering, config: Mapping[str, Any]) -> None:
        """`config` is the model's."""
        self.labels, self.options, self.config = labels, options, config

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
