"""Predictions by ONNX Runtime, of exported folders. Imports no torch."""

import concurrent.futures
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Encoding, Tokenizer

from common.errors import UserError
from common.words import counted, first_line
from distill.predict_models import read_config
from students.onnx_folder import TOKENIZER
from students.runtime import OnnxModel, padded_batch


class OnnxPredictor:
    """See `distill.predict_models.Model`."""

    def __init__(self, folder: Path, *, threads: int) -> None:
        """Load the model.

        Raises:
            UserError: a missing or damaged file, or ONNX Runtime is not installed.
        """
        self.config: Mapping[str, Any] = read_config(folder)
        # One thread a batch and batches side by side: at these sizes threads inside an operator bring less.
        self._model, self._threads = OnnxModel(folder, threads=1), threads
        self.tokenizer = _tokenizer(folder)
        self._pad = int((self.tokenizer.padding or {}).get("pad_id", 0))
        self.max_length = self.most = self._model.info.max_length
        self.words = f"ONNX Runtime {self._model.info.precision}, {counted(threads, 'thread')}"
        segments = "token_type_ids" in self._model.info.inputs
        self._single = not segments and int(self.config.get("type_vocab_size") or 1) > 1

    def outputs(self, batches: Sequence[Sequence[Encoding]]) -> Iterator[Mapping[str, np.ndarray]]:
        """As many batches at a time as there are threads.

        Raises:
            UserError: pairs for a model that was exported without the input that tells two texts apart.
        """
        if self._threads == 1 or len(batches) == 1:
            yield from map(self._run, batches)
            return
        pool = concurrent.futures.ThreadPoolExecutor(self._threads)
        try:
            yield from pool.map(self._run, batches)
        finally:
            pool.shutdown(cancel_futures=True)

    def _run(self, batch: Sequence[Encoding]) -> Mapping[str, np.ndarray]:
        if self._single and any(1 in encoding.type_ids for encoding in batch):
            raise UserError("this model was exported for single texts: export it for pairs, or leave second texts out")
        ids = [np.array(encoding.ids) for encoding in batch]
        types = [np.array(encoding.type_ids) for encoding in batch]
        return self._model.run(padded_batch(ids, types, padding=self._pad))


def _tokenizer(folder: Path) -> Tokenizer:
    path = folder / TOKENIZER
    try:
        return Tokenizer.from_file(str(path))
    # The tokenizers library raises plain Exception for a damaged file.
    except Exception as error:
        raise UserError(f"{path} is damaged ({first_line(error)}): export the model again") from error
