"""From texts to a model's outputs: tokenised together, batched by length, given back in the order of the texts."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from tokenizers import Encoding

from common.errors import UserError
from distill.predict_answers import Outputs
from distill.predict_long import Encode, single_texts
from distill.predict_models import Model
from distill.predict_texts import Text
from teacher.windows import default_stride

BATCH_PIECES = 4096
"""Pieces of a batch at most, padding counted, so that long texts take no more memory than short ones."""


class Predictor:
    """A model with its tokenizer set up; counts the texts that it cut."""

    def __init__(
        self,
        model: Model,
        *,
        max_length: int | None,
        batch_size: int,
        rows: str = "texts",
        long: str | None = None,
        stride: int | None = None,
    ) -> None:
        """`max_length` is in pieces, None for the model's own; `batch_size` is in texts.

        `rows` is what the model reads at once, see `Head.rows`. Of windows only the pairs are cut, into as many parts
        as it takes. `long` and `stride` are as in the model's configuration (`teacher.windows`).

        Raises:
            UserError: the model takes fewer pieces, or long texts in a way that is not known.
        """
        if max_length is not None and max_length > model.most:
            raise UserError(f"--max-length {max_length}: this model takes {model.most} pieces at most")
        self._model, self._batch_size, self._rows = model, batch_size, rows
        self.max_length = self.most = max_length or model.max_length
        self.cut = 0
        model.tokenizer.no_padding()
        self._stride = default_stride(self.max_length) if stride is None else stride
        self._single: Encode | None = None
        if rows != "windows":
            model.tokenizer.enable_truncation(self.max_length, strategy="longest_first")
            if rows == "texts" and long is not None:
                self._single = single_texts(model.tokenizer, long, self.max_length, self._stride)
            return
        room = self.max_length - model.tokenizer.num_special_tokens_to_add(is_pair=True)
        self._stride = min(self._stride, room // 3)
        self.most = room - 2 * self._stride

    def __call__(self, texts: Sequence[Text]) -> tuple[list[Encoding], list[Outputs]]:
        """The pieces and the outputs of each text, in order; of several rows a text the outputs of all, stacked, or
        of a text in windows their mean.
        """
        if self._rows == "texts" and self._single is None:
            encodings = self._texts(texts)
            return encodings, self._outputs(encodings)
        if self._rows == "texts":
            parts = self._in_windows(texts)
        elif self._rows == "choices":
            parts = self._choices(texts)
        else:
            parts = [[encoding, *encoding.overflowing] for encoding in self._questions(texts)]
        outputs = iter(self._outputs([row for part in parts for row in part]))
        combined = _mean if self._rows == "texts" else _joined
        return [part[0] for part in parts], [combined([next(outputs) for _ in part]) for part in parts]

    def _in_windows(self, texts: Sequence[Text]) -> list[list[Encoding]]:
        """The rows of each text, as the model was trained to read it; pairs, which it was not trained on, are cut."""
        assert self._single is not None
        pairs = iter(self._texts([text for text in texts if text.pair is not None]))
        alone = iter(self._single([text.text for text in texts if text.pair is None]))
        parts = []
        for text in texts:
            if text.pair is not None:
                parts.append([next(pairs)])
                continue
            parts.append(next(alone))
            self.cut += len(parts[-1]) == 1 and bool(parts[-1][0].overflowing)
        return parts

    def _choices(self, texts: Sequence[Text]) -> list[list[Encoding]]:
        for text in texts:
            if not text.choices:
                raise UserError(
                    f"line {text.line} has no choices: this model takes one of several, given with --choices, or in "
                    "columns of a csv, tsv or jsonl file"
                )
        pairs = [(text.text, choice) for text in texts for choice in text.choices]
        rows = iter(self._model.tokenizer.encode_batch(pairs))
        parts = [[next(rows) for _ in text.choices] for text in texts]
        self.cut += sum(any(encoding.overflowing for encoding in part) for part in parts)
        return parts

    def _texts(self, texts: Sequence[Text]) -> list[Encoding]:
        inputs = [text.text if text.pair is None else (text.text, text.pair) for text in texts]
        encodings = self._model.tokenizer.encode_batch(inputs)
        self.cut += sum(bool(encoding.overflowing) for encoding in encodings)
        return encodings

    def _questions(self, texts: Sequence[Text]) -> list[Encoding]:
        for text in texts:
            if text.pair is None:
                raise UserError(
                    f"line {text.line} has a question without a context: this model looks for answers in a context, "
                    "given with --pair, or as a column (--pair-column)"
                )
        tokenizer = self._model.tokenizer
        tokenizer.no_truncation()
        pieces = tokenizer.encode_batch([text.text for text in texts], add_special_tokens=False)
        long = [len(encoding.ids) > self.most for encoding in pieces]
        self.cut += sum(long)
        questions = [
            text.text[: encoding.offsets[self.most - 1][1]] if cut else text.text
            for text, encoding, cut in zip(texts, pieces, long, strict=True)
        ]
        tokenizer.enable_truncation(self.max_length, stride=self._stride, strategy="only_second")
        pairs = [(question, str(text.pair)) for question, text in zip(questions, texts, strict=True)]
        return tokenizer.encode_batch(pairs)

    def _outputs(self, encodings: Sequence[Encoding]) -> list[Outputs]:
        plan = length_batches([len(encoding.ids) for encoding in encodings], self._batch_size)
        found: list[Outputs] = [{}] * len(encodings)
        batches = [[encodings[index] for index in indices] for indices in plan]
        for indices, outputs in zip(plan, self._model.outputs(batches), strict=True):
            for row, index in enumerate(indices):
                found[index] = {name: value[row] for name, value in outputs.items()}
        return found


def _mean(windows: Sequence[Outputs]) -> Outputs:
    """The mean of each output over the windows of a text."""
    return {name: np.mean([window[name] for window in windows], axis=0) for name in windows[0]}


def _joined(windows: Sequence[Outputs]) -> Outputs:
    """Outputs along pieces, (l,) each, as (windows, longest l), filled up with 0."""
    longest = max(len(value) for window in windows for value in window.values())
    return {
        name: np.stack([np.pad(window[name], (0, longest - len(window[name]))) for window in windows])
        for name in windows[0]
    }


def length_batches(lengths: Sequence[int], batch_size: int, pieces: int = BATCH_PIECES) -> list[list[int]]:
    """Indices by rising length, in batches of at most `batch_size` texts and `pieces` pieces, or of one longer text.

    >>> length_batches([3, 9, 1, 4], 2), length_batches([3, 9, 1, 4], 4, pieces=9)
    ([[2, 0], [3, 1]], [[2, 0], [3], [1]])
    """
    batches: list[list[int]] = []
    for index in np.argsort(np.asarray(lengths), kind="stable").tolist():
        last = batches[-1] if batches else None
        if last is None or len(last) == batch_size or (len(last) + 1) * lengths[index] > pieces:
            batches.append([])
        batches[-1].append(index)
    return batches


def chunks(texts: Iterator[Text], size: int, waiting: Callable[[], bool]) -> Iterator[list[Text]]:
    """Texts in lists of at most `size`; a shorter one where `waiting` says that no more is to be had for now."""
    chunk: list[Text] = []
    for text in texts:
        chunk.append(text)
        if len(chunk) == size or waiting():
            yield chunk
            chunk = []
    if chunk:
        yield chunk
