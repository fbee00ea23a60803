"""What every kind of task gives; distillation code knows no task by name."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from teacher.batches import attention_mask, padded, padded_length
from teacher.data import Example, TaskData


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Tokenised examples, ragged: every list has one entry an example."""

    input_ids: list[np.ndarray]
    """int64 pieces with specials, no padding."""
    token_types: list[np.ndarray]
    """Segment of each piece."""
    labels: np.ndarray
    """int64 class indices or float32 values."""
    max_length: int
    """The limit on pieces."""
    truncated: int
    """Examples that were longer."""

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def lengths(self) -> np.ndarray:
        return np.array([len(ids) for ids in self.input_ids], dtype=np.int64)


class Task(ABC):
    """One kind of task bound to one data set."""

    kind: ClassVar[str]
    soft_form: ClassVar[str]
    """How a student learns from a teacher's outputs: "classes" (a distribution over them) or "values"."""
    per_position: ClassVar[bool] = False
    """Logits are (n, length, outputs), one row a piece, and not (n, outputs)."""
    higher_is_better: ClassVar[bool] = True

    def __init__(self, data: TaskData) -> None:
        self.data = data

    @abstractmethod
    def head(self) -> dict[str, Any]:
        """Configuration entries of the model's head: num_labels, id2label, label2id, problem_type."""

    @abstractmethod
    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The hard-label loss, a mean over examples. logits (batch, outputs) in fp32."""

    @abstractmethod
    def decode(self, logits: np.ndarray) -> np.ndarray:
        """logits (n, outputs) to predictions (n,)."""

    @abstractmethod
    def metrics(self, predictions: np.ndarray, references: np.ndarray) -> dict[str, float]:
        """Every metric of the task, as fractions; the one named by `data.metric` is among them."""

    @abstractmethod
    def constant_prediction(self) -> float:
        """What a model without any input would answer: the most frequent class, the mean."""

    def label_scale(self) -> tuple[float, float]:
        """Mean and deviation of the training labels where they are numbers; (0, 1) where outputs have no unit."""
        return 0.0, 1.0

    def soft_positions(self, batch: Mapping[str, Tensor]) -> Tensor | None:
        """Boolean mask of the positions whose logits count for soft losses; None where logits are one row an
        example.
        """
        return None

    def encode(self, examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_length: int) -> Encoded:
        """Tokenise; longer texts are cut to `max_length` pieces, the longer side of a pair first, and counted."""
        texts = [example.text for example in examples]
        pairs = (
            [example.pair or "" for example in examples]
            if any(example.pair is not None for example in examples)
            else None
        )
        encoding = tokenizer(
            texts,
            pairs,
            truncation="longest_first",
            max_length=max_length,
            return_token_type_ids=True,
            return_attention_mask=False,
            return_overflowing_tokens=True,
            stride=0,
        )
        # Overflowing pieces come back as further rows of the same example: the first row is the cut text.
        rows = encoding["overflow_to_sample_mapping"]
        first = [row for row, sample in enumerate(rows) if row == 0 or rows[row - 1] != sample]
        truncated = len({sample for row, sample in enumerate(rows) if row > 0 and rows[row - 1] == sample})
        return Encoded(
            input_ids=[np.asarray(encoding["input_ids"][row], dtype=np.int64) for row in first],
            token_types=[np.asarray(encoding["token_type_ids"][row], dtype=np.int64) for row in first],
            labels=self.label_array(examples),
            max_length=max_length,
            truncated=truncated,
        )

    @abstractmethod
    def label_type(self) -> type[np.generic]:
        """numpy type of the labels."""

    def label_array(self, examples: Sequence[Example]) -> np.ndarray:
        """Their labels (n,)."""
        return np.array([example.label for example in examples], dtype=self.label_type())

    def collate(self, encoded: Encoded, indices: Sequence[int], pad: int) -> dict[str, Tensor]:
        """Pad: input_ids, attention_mask, token_type_ids (batch, length), labels (batch,)."""
        rows = [encoded.input_ids[index] for index in indices]
        length = padded_length(map(len, rows), limit=encoded.max_length)
        return {
            "input_ids": torch.from_numpy(padded(rows, length, pad)),
            "attention_mask": torch.from_numpy(attention_mask(rows, length)),
            "token_type_ids": torch.from_numpy(padded([encoded.token_types[index] for index in indices], length, 0)),
            "labels": torch.from_numpy(encoded.labels[np.asarray(indices)]),
        }
