"""From texts to a model's outputs: tokenised together, batched by length, given back in the order of the texts."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from tokenizers import Encoding

from common.errors import UserError
from distill.predict_answers import Outputs
from distill.predict_models import Model
from distill.predict_texts import Text

BATCH_PIECES = 4096
"""Pieces of a batch at most, padding counted, so that long texts take no more memory than short ones."""


class Predictor:
    """A model with its tokenizer set up; counts the texts that it cut."""

    def __init__(self, model: Model, *, max_length: int | None, batch_size: int) -> None:
        """`max_length` is in pieces, None for the model's own; `batch_size` is in texts.

        Raises:
            UserError: the model takes fewer pieces.
        """
        if max_length is not None and max_length > model.most:
            raise UserError(f"--max-length {max_length}: this model takes {model.most} pieces at most")
        self._model, self._batch_size = model, batch_size
        self.max_length = max_length or model.max_length
        self.cut = 0
        model.tokenizer.no_padding()
        model.tokenizer.enable_truncation(self.max_length, strategy="longest_first")

    def __call__(self, texts: Sequence[Text]) -> tuple[list[Encoding], list[Outputs]]:
        """The pieces and the outputs of each text, in order."""
        inputs = [text.text if text.pair is None else (text.text, text.pair) for text in texts]
        encodings = self._model.tokenizer.encode_batch(inputs)
        self.cut += sum(bool(encoding.overflowing) for encoding in encodings)
        plan = length_batches([len(encoding.ids) for encoding in encodings], self._batch_size)
        found: list[Outputs] = [{}] * len(texts)
        batches = [[encodings[index] for index in indices] for indices in plan]
        for indices, outputs in zip(plan, self._model.outputs(batches), strict=True):
            for row, index in enumerate(indices):
                found[index] = {name: value[row] for name, value in outputs.items()}
        return encodings, found


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
