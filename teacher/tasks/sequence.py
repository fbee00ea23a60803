"""One answer a text or pair of texts: a class, or a number."""

from typing import Any, ClassVar

import numpy as np
from scipy import stats
from sklearn import metrics as scores
from torch import Tensor
from torch.nn import functional

from teacher.tasks.base import Encoded, PerLabel
from teacher.tasks.long_texts import pooled
from teacher.tasks.texts import TextTask


class Classification(TextTask):
    """Single-label classification; GLUE's metrics: accuracy, F1 (of class 1, or macro), Matthews correlation."""

    kind: ClassVar[str] = "classification"
    soft_form: ClassVar[str] = "classes"
    weighable: ClassVar[bool] = True

    def head(self) -> dict[str, Any]:
        return {
            "num_labels": len(self.data.labels),
            "id2label": dict(enumerate(self.data.labels)),
            "label2id": {label: index for index, label in enumerate(self.data.labels)},
            "problem_type": "single_label_classification",
        }

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(logits.float(), labels)

    def decode(self, logits: np.ndarray, encoded: Encoded) -> np.ndarray:
        return pooled(logits, encoded).argmax(axis=-1)

    def metrics(self, predictions: np.ndarray, references: np.ndarray) -> dict[str, float]:
        two = len(self.data.labels) == 2
        return {
            "accuracy": float(np.mean(predictions == references)),
            "f1" if two else "macro_f1": float(
                scores.f1_score(references, predictions, average="binary" if two else "macro", zero_division=0)
            ),
            "matthews": float(scores.matthews_corrcoef(references, predictions)),
        }

    def constant_predictions(self, references: np.ndarray) -> np.ndarray:
        labels = [int(example.label) for example in self.data.splits["train"]]
        return np.full(len(references), np.bincount(labels).argmax())

    def right(self, predictions: np.ndarray, references: np.ndarray) -> np.ndarray:
        return predictions == references

    def counts(self, predictions: np.ndarray, references: np.ndarray) -> np.ndarray | None:
        """(n, 2) right and all, for the accuracy; else (n, 3 C) of each class: right, given as the answer, there."""
        if self.data.metric == "accuracy":
            return np.stack([self.right(predictions, references), np.ones(len(references))], axis=1)
        classes = np.eye(len(self.data.labels))
        given, there = classes[predictions], classes[references]
        return np.concatenate([given * there, given, there], axis=1)

    def from_counts(self, sums: np.ndarray) -> np.ndarray:
        if self.data.metric == "accuracy":
            return sums[..., 0] / sums[..., 1]
        right, given, there = np.split(sums, 3, axis=-1)
        if self.data.metric == "matthews":
            return _matthews(right, given, there)
        f1 = 2 * right / np.maximum(given + there, 1)
        # A class that is neither an answer nor there does not count, as in sklearn.
        return f1[..., 1] if self.data.metric == "f1" else f1.sum(-1) / np.maximum((given + there > 0).sum(-1), 1)

    def per_label(self, predictions: np.ndarray, references: np.ndarray) -> tuple[PerLabel, ...]:
        precision, recall, f1, count = scores.precision_recall_fscore_support(
            references, predictions, labels=range(len(self.data.labels)), zero_division=0
        )
        rows = zip(self.data.labels, count, precision, recall, f1, strict=True)
        return tuple(
            PerLabel(label=label, n=int(n), precision=float(p), recall=float(r), f1=float(f))
            for label, n, p, r, f in rows
        )


def _matthews(right: np.ndarray, given: np.ndarray, there: np.ndarray) -> np.ndarray:
    """The correlation from counts of each class (Gorodkin 2004); 0 where all answers, or all references, are one."""
    total = there.sum(-1)
    product = (total**2 - (given**2).sum(-1)) * (total**2 - (there**2).sum(-1))
    shared = right.sum(-1) * total - (given * there).sum(-1)
    return np.where(product > 0, shared / np.sqrt(np.maximum(product, 1)), 0.0)


class Regression(TextTask):
    """One number a text or pair; GLUE's metrics for STS-B: Pearson and Spearman, and their mean."""

    kind: ClassVar[str] = "regression"
    soft_form: ClassVar[str] = "values"

    def head(self) -> dict[str, Any]:
        return {"num_labels": 1, "id2label": {0: "score"}, "label2id": {"score": 0}, "problem_type": "regression"}

    def label_type(self) -> type[np.generic]:
        return np.float32

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return functional.mse_loss(logits.float().squeeze(-1), labels.float())

    def decode(self, logits: np.ndarray, encoded: Encoded) -> np.ndarray:
        return pooled(logits, encoded).reshape(-1)

    def metrics(self, predictions: np.ndarray, references: np.ndarray) -> dict[str, float]:
        # A constant answer has no correlation; scipy gives NaN, GLUE's scorers 0.
        constant = np.ptp(predictions) == 0 or np.ptp(references) == 0
        pearson = 0.0 if constant else float(stats.pearsonr(predictions, references).statistic)
        spearman = 0.0 if constant else float(stats.spearmanr(predictions, references).statistic)
        return {
            "pearson_spearman": (pearson + spearman) / 2,
            "pearson": pearson,
            "spearman": spearman,
            "rmse": float(np.sqrt(np.mean((predictions - references) ** 2))),
        }

    def constant_predictions(self, references: np.ndarray) -> np.ndarray:
        return np.full(len(references), self.label_scale()[0], dtype=np.float32)

    def label_scale(self) -> tuple[float, float]:
        values = [example.label for example in self.data.splits["train"]]
        return float(np.mean(values)), float(np.std(values)) or 1.0
