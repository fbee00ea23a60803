"""Answers of models that find them in a context: the text is the question, its pair the context."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from tokenizers import Encoding

from common.errors import UserError
from distill.predict_answers import DIGITS, Head, Outputs
from distill.predict_texts import Text
from teacher.spans import best_rows, best_spans

THRESHOLD = "no_answer_threshold"
"""The entry of config.json that says from which score on there is no answer; a model without it always has one."""


class SpanAnswers(Head):
    """The stretch of the context with the highest score of start and end, over all windows of the context."""

    rows: ClassVar[Literal["texts", "windows", "choices"]] = "windows"
    places: ClassVar[Literal["", "text", "pair"]] = "pair"

    def answers(
        self, texts: Sequence[Text], encodings: Sequence[Encoding], outputs: Sequence[Outputs]
    ) -> list[dict[str, Any]]:
        """answer, its first character in the context and the one after its last, and score: the probability of its
        start times that of its end, among the pieces of the context and [CLS]. Without an answer it is "", its places
        are null, and the score is that of [CLS].
        """
        windows = [window for encoding in encodings for window in (encoding, *encoding.overflowing)]
        example = np.repeat(np.arange(len(texts)), [1 + len(encoding.overflowing) for encoding in encodings])
        logits = _stacked(outputs)
        sides = [window.sequence_ids for window in windows]
        count = np.array([side.count(1) for side in sides])
        first = np.array([side.index(1) if 1 in side else 0 for side in sides])
        spans = best_spans(logits, first, count)
        rows = best_rows(spans.score, example)
        nothing = np.full(len(texts), np.inf)
        np.minimum.at(nothing, example, logits[:, 0].sum(axis=1))
        chances = _probabilities(logits, first, count)
        found = []
        for index, row in enumerate(rows):
            if self._none(float(nothing[index]), float(spans.score[row])):
                score = max(float(chances[own, 0].prod()) for own in np.flatnonzero(example == index))
                found.append(_answer("", None, None, score))
                continue
            start, end = spans.start[row], spans.end[row]
            score = float(chances[row, start, 0] * chances[row, end, 1])
            offsets = windows[row].offsets
            found.append(_cut_out(str(texts[index].pair), offsets[start][0], offsets[end][1], score))
        return found

    def _none(self, nothing: float, best: float) -> bool:
        """Whether the context has no answer."""
        threshold = self.config.get(THRESHOLD)
        return not np.isfinite(best) or (threshold is not None and nothing - best > threshold)

    def columns(self) -> list[str]:
        return ["answer", "start", "end", "score"]

    def cells(self, answer: Mapping[str, Any]) -> list[Any]:
        return [answer[name] for name in self.columns()]


def _cut_out(context: str, start: int, end: int, score: float) -> dict[str, Any]:
    """The answer without white space at its ends, which some tokenizers count to a piece."""
    text = context[start:end]
    start += len(text) - len(text.lstrip())
    return _answer(text.strip(), start, start + len(text.strip()), score)


def _answer(text: str, start: int | None, end: int | None, score: float) -> dict[str, Any]:
    return {"answer": text, "start": start, "end": end, "score": round(score, DIGITS)}


def _stacked(outputs: Sequence[Outputs]) -> np.ndarray:
    """(windows, l, 2) logits of starts and ends, in double precision, 0 behind the end of shorter windows.

    Raises:
        UserError: one is no number.
    """
    parts = [np.stack([row["start_logits"], row["end_logits"]], axis=-1) for row in outputs]
    logits = np.zeros((sum(map(len, parts)), max(part.shape[1] for part in parts), 2))
    place = 0
    for part in parts:
        logits[place : place + len(part), : part.shape[1]] = part
        place += len(part)
    if not np.isfinite(logits).all():
        raise UserError("the model's outputs are no numbers (NaN or infinity): its weights are damaged, train it again")
    return logits


def _probabilities(logits: np.ndarray, first: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Softmax of starts and of ends over the context's pieces and [CLS]; 0 elsewhere."""
    places = np.arange(logits.shape[1])
    counted = ((places >= first[:, None]) & (places < (first + count)[:, None])) | (places == 0)
    powers = np.where(counted[..., None], np.exp(logits - logits.max(axis=1, keepdims=True)), 0.0)
    return powers / np.maximum(powers.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
