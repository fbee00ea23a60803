"""Extractive questions: the stretch of a context that answers a question, or that none does (SQuAD 1.1 and 2.0)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedTokenizerBase

from common.heads import SPANS
from teacher.answer_scores import answer_scores
from teacher.batches import padded
from teacher.data import Example
from teacher.spans import Spans, best_rows, best_spans, best_threshold
from teacher.tasks.base import Encoded, Task
from teacher.windows import default_stride, encode_windows, pieces_of

IGNORED = -100
"""The label of positions that are neither context nor [CLS]."""
THRESHOLD = "no_answer_threshold"
"""Entry of a model's configuration: a question has no answer where [CLS] scores more than this above the best span."""


@dataclass(frozen=True, kw_only=True)
class EncodedQuestions(Encoded):
    """Windows of questions and contexts; `labels` (rows, 2) are the first and last piece of the answer, 0 and 0 where
    it is not in the window.
    """

    example: np.ndarray
    """(rows,) which example a window is of."""
    first: np.ndarray
    """(rows,) the first piece of context."""
    offsets: list[np.ndarray]
    """Characters of each piece of context, (pieces, 2)."""
    contexts: list[str]
    """Of each example."""
    golds: np.ndarray
    """Right answers of each example, a tuple of texts."""

    @property
    def references(self) -> np.ndarray:
        return self.golds

    @property
    def counts(self) -> np.ndarray:
        """(rows,) pieces of context."""
        return np.array([len(offsets) for offsets in self.offsets], dtype=np.int64)


class Questions(Task):
    """Start and end of an answer, each a distribution over the pieces of the context and [CLS], which stands for no
    answer (Devlin et al. 2018, arXiv 1810.04805, sections 4.2 and 4.3).
    """

    kind: ClassVar[str] = "questions"
    head_kind: ClassVar[str] = SPANS
    soft_form: ClassVar[str] = "spans"
    per_position: ClassVar[bool] = True

    def head(self) -> dict[str, Any]:
        return {"num_labels": 2, "id2label": {0: "start", 1: "end"}, "label2id": {"start": 0, "end": 1}}

    @cached_property
    def unanswerable(self) -> bool:
        """Whether there are questions without an answer, as in SQuAD 2.0."""
        return any(not example.detail.answers for example in self.data.splits["train"])

    @property
    def settings(self) -> tuple[str, ...]:
        return (THRESHOLD,) if self.unanswerable else ()

    def encode(
        self, examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_length: int
    ) -> EncodedQuestions:
        """Tokenise; long contexts give several rows, longer questions are cut, and counted."""
        stride = default_stride(max_length) if self.data.stride is None else self.data.stride
        contexts = [str(example.pair) for example in examples]
        windows = encode_windows([example.text for example in examples], contexts, tokenizer, max_length, stride)
        labels = np.zeros((len(windows.example), 2), dtype=np.int64)
        for row, example in enumerate(windows.example):
            answers = examples[example].detail.answers
            if answers:
                labels[row] = pieces_of(windows, row, answers[0].start, answers[0].start + len(answers[0].text))
        return EncodedQuestions(
            input_ids=windows.input_ids,
            token_types=windows.token_types,
            labels=labels,
            max_length=max_length,
            truncated=windows.cut,
            example=windows.example,
            first=windows.first,
            offsets=windows.offsets,
            contexts=contexts,
            golds=_objects([tuple(answer.text for answer in example.detail.answers) for example in examples]),
        )

    def label_tensor(self, encoded: Encoded, indices: Sequence[int], length: int) -> Tensor:
        """(batch, length): -100 where no answer can be; elsewhere 1 at its start, plus 2 at its end."""
        assert isinstance(encoded, EncodedQuestions)
        rows = []
        for index in indices:
            row = np.full(len(encoded.input_ids[index]), IGNORED, dtype=np.int64)
            first = encoded.first[index]
            row[first : first + len(encoded.offsets[index])] = 0
            row[0] = 0
            start, end = encoded.labels[index]
            row[start] += 1
            row[end] += 2
            rows.append(row)
        return torch.from_numpy(padded(rows, length, IGNORED))

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The mean of the cross-entropies of start and end, over the context and [CLS] alone."""
        lowest = torch.finfo(logits.dtype).min / 2
        candidates = logits.masked_fill((labels == IGNORED)[..., None], lowest)
        bits = labels.clamp(min=0)
        targets = ((bits & 1).argmax(dim=1), (bits & 2).argmax(dim=1))
        parts = [functional.cross_entropy(candidates[..., side], target) for side, target in enumerate(targets)]
        return torch.stack(parts).mean()

    def soft_positions(self, batch: Mapping[str, Tensor]) -> Tensor:
        return batch["labels"] != IGNORED

    def decode(self, logits: np.ndarray, encoded: Encoded) -> np.ndarray:
        """The answers in words, cut from the contexts; "" where [CLS] scores more than the best span, if that may be.

        A context without a piece is answered with "" too.
        """
        assert isinstance(encoded, EncodedQuestions)
        answers, margin = self._answers(logits, encoded)
        return _objects(
            ["" if self.unanswerable and more > 0 else text for text, more in zip(answers, margin, strict=True)]
        )

    def tune(self, logits: np.ndarray, encoded: Encoded) -> dict[str, float]:
        """The threshold of no answer with the highest F1; none where every question has one."""
        if not self.unanswerable:
            return {}
        assert isinstance(encoded, EncodedQuestions)
        answers, margin = self._answers(logits, encoded)
        answered = answer_scores(answers, list(encoded.golds))[:, 1]
        nothing = answer_scores([""] * len(answers), list(encoded.golds))[:, 1]
        return {THRESHOLD: best_threshold(margin, answered, nothing)}

    def tuned(self, logits: np.ndarray, settings: Mapping[str, float]) -> np.ndarray:
        """[CLS] scores less by the threshold."""
        threshold = settings.get(THRESHOLD, 0.0)
        if not threshold:
            return logits
        moved = logits.copy()
        moved[:, 0] -= threshold / 2
        return moved

    def _answers(self, logits: np.ndarray, encoded: EncodedQuestions) -> tuple[list[str], np.ndarray]:
        """The best span of each example in words, and by how much no answer scores more: the least over its windows."""
        spans = best_spans(logits, encoded.first, encoded.counts)
        rows = best_rows(spans.score, encoded.example)
        nothing = np.full(len(encoded.contexts), np.inf)
        np.minimum.at(nothing, encoded.example, logits[:, 0].sum(axis=1))
        return [span_text(encoded, spans, row) for row in rows], nothing - spans.score[rows]

    def metrics(self, predictions: np.ndarray, references: np.ndarray) -> dict[str, float]:
        """F1 over words and exact match; with questions that have no answer, of these and of the others too."""
        scores = answer_scores(list(predictions), list(references))
        found = {"f1": float(scores[:, 1].mean()), "exact_match": float(scores[:, 0].mean())}
        answerable = np.array([bool(gold) for gold in references])
        for name, rows in (("has_answer", answerable), ("no_answer", ~answerable)):
            if self.unanswerable and rows.any():
                exact, f1 = scores[rows].mean(axis=0)
                found |= {f"{name}_f1": float(f1), f"{name}_exact_match": float(exact)}
        return found

    def constant_predictions(self, references: np.ndarray) -> np.ndarray:
        return _objects([""] * len(references))

    def right(self, predictions: np.ndarray, references: np.ndarray) -> np.ndarray:
        return answer_scores(list(predictions), list(references))[:, 0] == 1

    def counts(self, predictions: np.ndarray, references: np.ndarray) -> np.ndarray:
        """F1 of each, and 1."""
        f1 = answer_scores(list(predictions), list(references))[:, 1]
        return np.stack([f1, np.ones(len(f1))], axis=1)

    def from_counts(self, sums: np.ndarray) -> np.ndarray:
        return sums[..., 0] / sums[..., 1]


def span_text(encoded: EncodedQuestions, spans: Spans, row: int) -> str:
    """The words of a row's best span; "" where it has none."""
    start, end = span_place(encoded, spans, row)
    return encoded.contexts[encoded.example[row]][start:end].strip()


def span_place(encoded: EncodedQuestions, spans: Spans, row: int) -> tuple[int, int]:
    """First character of a row's best span in the context, and the one after its last."""
    if not np.isfinite(spans.score[row]):
        return 0, 0
    first = encoded.first[row]
    offsets = encoded.offsets[row]
    return int(offsets[spans.start[row] - first, 0]), int(offsets[spans.end[row] - first, 1])


def _objects(values: Sequence[Any]) -> np.ndarray:
    """A one-dimensional array of them, whatever they are."""
    made = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        made[place] = value
    return made
