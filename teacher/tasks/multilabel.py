"""Any number of labels a text or pair: each a question of its own."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn import metrics as scores
from torch import Tensor
from torch.nn import functional

from teacher.data import Example
from teacher.tasks.base import Encoded, PerLabel
from teacher.tasks.long_texts import pooled
from teacher.tasks.texts import TextTask


class MultiLabel(TextTask):
    """Multi-label classification by a sigmoid for each label; predictions and references are (n, labels) of 0 and 1."""

    kind: ClassVar[str] = "multilabel"
    soft_form: ClassVar[str] = "binary"
    weighable: ClassVar[bool] = True

    def head(self) -> dict[str, Any]:
        return {
            "num_labels": len(self.data.labels),
            "id2label": dict(enumerate(self.data.labels)),
            "label2id": {label: index for index, label in enumerate(self.data.labels)},
            "problem_type": "multi_label_classification",
        }

    def label_type(self) -> type[np.generic]:
        return np.float32

    def label_array(self, examples: Sequence[Example]) -> np.ndarray:
        """(n, labels); all 0 for a text without labels, whose label is 0 and means nothing."""
        found = np.zeros((len(examples), len(self.data.labels)), dtype=np.float32)
        for row, example in zip(found, examples, strict=True):
            if isinstance(example.label, tuple):
                row[list(example.label)] = 1
        return found

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Binary cross-entropy, the mean over rows and labels."""
        return functional.binary_cross_entropy_with_logits(logits.float(), labels.float())

    def decode(self, logits: np.ndarray, encoded: Encoded) -> np.ndarray:
        """Labels whose probability is above one half."""
        return (pooled(logits, encoded) > 0).astype(np.int64)

    def metrics(self, predictions: np.ndarray, references: np.ndarray) -> dict[str, float]:
        """F1 over all decisions (micro), the mean of each label's F1 (macro), and rows with all labels right."""
        micro = self.from_counts(self.counts(predictions, references).sum(axis=0))
        macro = scores.f1_score(references.astype(np.int64), predictions, average="macro", zero_division=0)
        return {
            "micro_f1": float(micro),
            "macro_f1": float(macro),
            "subset_accuracy": float(self.right(predictions, references).mean()),
        }

    def constant_predictions(self, references: np.ndarray) -> np.ndarray:
        """The most frequent labels, as many of them as give the best micro F1 on the training rows."""
        frequency = self.label_array(self.data.splits["train"]).mean(axis=0)
        order = np.argsort(-frequency, kind="stable")
        # Of the k most frequent labels: 2 true / (predicted + actual), a row each.
        f1 = 2 * frequency[order].cumsum() / (np.arange(1, len(order) + 1) + frequency.sum())
        answer = np.zeros(len(order), dtype=np.int64)
        answer[order[: int(f1.argmax()) + 1]] = 1
        return np.tile(answer, (len(references), 1))

    def right(self, predictions: np.ndarray, references: np.ndarray) -> np.ndarray:
        """Rows with exactly their labels."""
        return (predictions == references).all(axis=1)

    def counts(self, predictions: np.ndarray, references: np.ndarray) -> np.ndarray:
        """(n, 3) labels given rightly, given, and there."""
        true = (predictions * references).sum(axis=1)
        return np.stack([true, predictions.sum(axis=1), references.sum(axis=1)], axis=1).astype(np.float64)

    def from_counts(self, sums: np.ndarray) -> np.ndarray:
        return 2 * sums[..., 0] / np.maximum(sums[..., 1] + sums[..., 2], 1)

    def per_label(self, predictions: np.ndarray, references: np.ndarray) -> tuple[PerLabel, ...]:
        precision, recall, f1, count = scores.precision_recall_fscore_support(
            references.astype(np.int64), predictions, average=None, zero_division=0
        )
        rows = zip(self.data.labels, count, precision, recall, f1, strict=True)
        return tuple(
            PerLabel(label=label, n=int(n), precision=float(p), recall=float(r), f1=float(f))
            for label, n, p, r, f in rows
        )
