"""What every kind of task gives; distillation code knows no task by name."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from common.blocks import blocks
from common.heads import SEQUENCE
from teacher.batches import attention_mask, padded, padded_length
from teacher.data import Example, TaskData, text_columns
from teacher.windows import LONG, STRIDE

CHOICES = "choices"
"""The entry of a batch that says which choices of each example are there, (batch, choices) bool."""


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Tokenised examples, ragged: every list has one entry a row, what a model reads at once.

    Rows are examples, except where long texts are cut into windows: then an example has several rows.
    """

    input_ids: list[np.ndarray]
    """int64 pieces with specials, no padding."""
    token_types: list[np.ndarray]
    """Segment of each piece."""
    labels: np.ndarray
    """What is learned from, a row each: int64 class indices or float32 values, or as the kind of task has it."""
    max_length: int
    """The limit on pieces."""
    truncated: int
    """Examples that were longer."""

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def lengths(self) -> np.ndarray:
        return np.array([len(ids) for ids in self.input_ids], dtype=np.int64)

    @property
    def pairs(self) -> np.ndarray:
        """(rows,) pairs of pieces that see each other."""
        return self.lengths**2

    @property
    def references(self) -> np.ndarray:
        """What is right, one entry an example: what predictions are compared with."""
        return self.labels


@dataclass(frozen=True, kw_only=True)
class PerLabel:
    """How well one label is found."""

    label: str
    n: int
    """How often it is right."""
    precision: float
    recall: float
    f1: float


class Task(ABC):
    """One kind of task bound to one data set."""

    kind: ClassVar[str]
    head_kind: ClassVar[str] = SEQUENCE
    """A key of common.heads.AUTO_CLASSES."""
    soft_form: ClassVar[str]
    """How a student learns from a teacher's outputs: a key of distill.soft.FORMS."""
    per_position: ClassVar[bool] = False
    """Logits are (n, length, outputs), one row a piece, and not (n, outputs)."""
    carries: ClassVar[bool] = False
    """Rows at pieces stand for parts of the text that any tokenizer finds, so that `carried` puts them at others."""
    several: ClassVar[bool] = False
    """A model reads several rows for an example, and compares them: its hidden states are (n x rows, length, width)."""
    weighable: ClassVar[bool] = False
    """Its loss is the cross entropy of one class each, or of each label, so that these may have weights."""
    higher_is_better: ClassVar[bool] = True

    def __init__(self, data: TaskData) -> None:
        self.data = data

    @abstractmethod
    def head(self) -> dict[str, Any]:
        """Configuration entries of the model's head: num_labels, id2label, label2id, problem_type."""

    @abstractmethod
    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The hard-label loss, a mean over examples, or over what `weights` counts. logits in fp32."""

    @abstractmethod
    def decode(self, logits: np.ndarray, encoded: Encoded) -> np.ndarray:
        """Logits of every row, (n, outputs) or (n, length, outputs), to predictions, one an example."""

    @abstractmethod
    def metrics(self, predictions: np.ndarray, references: np.ndarray) -> dict[str, float]:
        """Every metric of the task, as fractions; the one named by `data.metric` is among them."""

    @abstractmethod
    def constant_predictions(self, references: np.ndarray) -> np.ndarray:
        """What a model without any input would answer: the most frequent class, the mean, one for each reference."""

    def signed(self, value: float) -> float:
        """The main metric as a score, of which higher is better; or such a score as the metric."""
        return value if self.higher_is_better else -value

    def right(self, predictions: np.ndarray, references: np.ndarray) -> np.ndarray | None:
        """(n,) bool, which examples are answered right; None where answers are nearer or farther from right."""
        return None

    def counts(self, predictions: np.ndarray, references: np.ndarray) -> np.ndarray | None:
        """(n, k) numbers of each example from whose sums `from_counts` gives the main metric; None: it has none such.

        A bootstrap then adds up numbers and need not score every draw anew.
        """
        return None

    def from_counts(self, sums: np.ndarray) -> np.ndarray:
        """Sums of `counts` over examples (..., k) to the main metric (...)."""
        raise NotImplementedError

    def per_label(self, predictions: np.ndarray, references: np.ndarray) -> tuple[PerLabel, ...]:
        """How well each label is found; empty where there are none."""
        return ()

    def label_scale(self) -> tuple[float, float]:
        """Mean and deviation of the training labels where they are numbers; (0, 1) where outputs have no unit."""
        return 0.0, 1.0

    @property
    def settings(self) -> tuple[str, ...]:
        """Entries of a model's configuration, numbers, that its outputs are read with: those that `tune` finds."""
        return ()

    def tune(self, logits: np.ndarray, encoded: Encoded) -> dict[str, float]:
        """What a model's outputs on a split that is not learned from say of how to read them: all of `settings`."""
        return {}

    def tuned(self, logits: np.ndarray, settings: Mapping[str, float]) -> np.ndarray:
        """Outputs that `decode` reads as the entries that `tune` found say; of other models as they are."""
        return logits

    def soft_positions(self, batch: Mapping[str, Tensor]) -> Tensor | None:
        """Boolean mask of the positions whose logits count for soft losses; None where logits are one row an
        example.
        """
        return None

    def weights(self, encoded: Encoded) -> np.ndarray | None:
        """(rows,) how many entries of each row the hard and soft losses are means over; None: one each."""
        return None

    def carried(self, logits: np.ndarray, theirs: Encoded, own: Encoded) -> np.ndarray:
        """Outputs at the pieces of `theirs` put at those of `own`, another tokenizer's reading of the same examples.

        (n, ..., their length, outputs) to (n, ..., own length, outputs), NaN at pieces that nothing stands for. Only of
        tasks with `carries`.
        """
        raise NotImplementedError

    def weighed_labels(self, encoded: Encoded) -> np.ndarray:
        """(n,) the class of each entry that the hard loss of a task with `weighable` classes is a mean over, or (n, k)
        its labels.
        """
        return encoded.labels

    def texts(self, example: Example) -> tuple[str, ...]:
        """All that a model reads of an example."""
        return tuple(text for text in (example.text, example.pair) if text)

    @property
    def reading(self) -> dict[str, Any]:
        """Entries of a model's configuration that say how it reads what is too long for it."""
        return {LONG: None if self.data.long == "truncate" else self.data.long, STRIDE: self.data.stride}

    @property
    def pairs(self) -> bool:
        """Whether a model reads two texts at once."""
        return self.data.paired

    def encode(self, examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_length: int) -> Encoded:
        """Tokenise; longer texts are cut to `max_length` pieces, the longer side of a pair first, and counted."""
        rows = encode_texts(examples, tokenizer, max_length)
        return Encoded(
            input_ids=rows.input_ids,
            token_types=rows.token_types,
            labels=self.label_array(examples),
            max_length=max_length,
            truncated=rows.truncated,
        )

    def label_type(self) -> type[np.generic]:
        """numpy type of the labels."""
        return np.int64

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
            "labels": self.label_tensor(encoded, indices, length),
        }

    def label_tensor(self, encoded: Encoded, indices: Sequence[int], length: int) -> Tensor:
        """The labels of these rows, padded to `length` pieces where there is one a piece."""
        return torch.from_numpy(encoded.labels[np.asarray(indices)])


@dataclass(frozen=True, kw_only=True)
class TextRows:
    """Texts as pieces, one row each."""

    input_ids: list[np.ndarray]
    token_types: list[np.ndarray]
    cut: tuple[int, ...]
    """The rows of texts that were longer."""

    @property
    def truncated(self) -> int:
        return len(self.cut)


def encode_texts(examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_length: int) -> TextRows:
    """Each text, or pair of texts, as one row; longer ones are cut, the longer side of a pair first."""
    parts = [_block(part, tokenizer, max_length) for part in blocks(examples)]
    starts = itertools.accumulate((len(part.input_ids) for part in parts), initial=0)
    return TextRows(
        input_ids=[ids for part in parts for ids in part.input_ids],
        token_types=[types for part in parts for types in part.token_types],
        cut=tuple(start + row for start, part in zip(starts, parts, strict=False) for row in part.cut),
    )


def _block(examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_length: int) -> TextRows:
    encoding = tokenizer(
        *text_columns(examples),
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
    return TextRows(
        input_ids=[np.asarray(encoding["input_ids"][row], dtype=np.int64) for row in first],
        token_types=[np.asarray(encoding["token_type_ids"][row], dtype=np.int64) for row in first],
        cut=tuple(sorted({sample for row, sample in enumerate(rows) if row > 0 and rows[row - 1] == sample})),
    )
