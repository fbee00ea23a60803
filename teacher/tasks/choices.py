"""Multiple choice: which of several texts goes with a context (SWAG, arXiv 1808.05326)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedTokenizerBase

from common.heads import CHOICE
from teacher.batches import attention_mask, padded, padded_length
from teacher.data import Example
from teacher.tasks.base import CHOICES, Encoded, Task, encode_texts


@dataclass(frozen=True, kw_only=True)
class EncodedChoices(Encoded):
    """Context and choice as pairs; an entry of every list holds all choices of an example, one behind the other.

    Every example has as many as the one with the most; those that are not there are pairs of empty texts.
    """

    sizes: np.ndarray
    """(n, choices) pieces of each."""
    there: np.ndarray
    """(n, choices) bool."""

    @property
    def pairs(self) -> np.ndarray:
        return (self.sizes**2).sum(axis=1)


class Choices(Task):
    """One score a choice, and a distribution over the choices of an example (BERT, arXiv 1810.04805, section 4.4)."""

    kind: ClassVar[str] = "choices"
    head_kind: ClassVar[str] = CHOICE
    soft_form: ClassVar[str] = "classes"
    several: ClassVar[bool] = True

    def head(self) -> dict[str, Any]:
        return {"num_labels": 1, "id2label": {0: "score"}, "label2id": {"score": 0}}

    def texts(self, example: Example) -> tuple[str, ...]:
        return tuple(text for text in (example.text, *example.detail) if text)

    @property
    def pairs(self) -> bool:
        return True

    def encode(
        self, examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_length: int
    ) -> EncodedChoices:
        """Tokenise every choice with its context; longer pairs are cut, the longer side first, and counted."""
        most = len(self.data.labels)
        pairs = [
            Example(example.text, choice, 0) if choice is not None else Example("", "", 0)
            for example in examples
            for choice in (*example.detail, *[None] * (most - len(example.detail)))
        ]
        rows = encode_texts(pairs, tokenizer, max_length)
        starts = range(0, len(pairs), most)
        return EncodedChoices(
            input_ids=[np.concatenate(rows.input_ids[start : start + most]) for start in starts],
            token_types=[np.concatenate(rows.token_types[start : start + most]) for start in starts],
            labels=self.label_array(examples),
            max_length=max_length,
            truncated=len({row // most for row in rows.cut}),
            sizes=np.array([len(ids) for ids in rows.input_ids]).reshape(-1, most),
            there=np.arange(most) < np.array([[len(example.detail)] for example in examples]),
        )

    def collate(self, encoded: Encoded, indices: Sequence[int], pad: int) -> dict[str, Tensor]:
        """Pad: input_ids, attention_mask, token_type_ids (batch x choices, length), the choices of an example one below
        the other; choices (batch, choices), which of them are there; labels (batch,).
        """
        assert isinstance(encoded, EncodedChoices)
        rows = self._parts(encoded.input_ids, encoded, indices)
        length = padded_length(map(len, rows), limit=encoded.max_length)
        types = self._parts(encoded.token_types, encoded, indices)
        return {
            "input_ids": torch.from_numpy(padded(rows, length, pad)),
            "attention_mask": torch.from_numpy(attention_mask(rows, length)),
            "token_type_ids": torch.from_numpy(padded(types, length, 0)),
            CHOICES: torch.from_numpy(encoded.there[np.asarray(indices)]),
            "labels": self.label_tensor(encoded, indices, length),
        }

    def _parts(self, joined: Sequence[np.ndarray], encoded: EncodedChoices, indices: Sequence[int]) -> list[np.ndarray]:
        """The choices of these examples, each for itself."""
        return [part for index in indices for part in np.split(joined[index], np.cumsum(encoded.sizes[index])[:-1])]

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(logits, labels)

    def decode(self, logits: np.ndarray, encoded: Encoded) -> np.ndarray:
        """The place of the choice with the highest score, from 0; the first among equals."""
        return logits.argmax(axis=-1)

    def metrics(self, predictions: np.ndarray, references: np.ndarray) -> dict[str, float]:
        return {"accuracy": float(np.mean(predictions == references))}

    def constant_predictions(self, references: np.ndarray) -> np.ndarray:
        places = [int(example.label) for example in self.data.splits["train"]]
        return np.full(len(references), np.bincount(places).argmax())

    def right(self, predictions: np.ndarray, references: np.ndarray) -> np.ndarray:
        return predictions == references

    def counts(self, predictions: np.ndarray, references: np.ndarray) -> np.ndarray:
        return np.stack([self.right(predictions, references), np.ones(len(references))], axis=1)

    def from_counts(self, sums: np.ndarray) -> np.ndarray:
        return sums[..., 0] / sums[..., 1]
