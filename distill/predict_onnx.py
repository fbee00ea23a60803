"""Predictions by ONNX Runtime, of exported folders. Imports no torch."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Encoding, Tokenizer

from common.errors import UserError
from common.words import first_line
from distill.predict_models import ONNX_WEIGHTS, read_config

DESCRIPTION, TOKENIZER = "onnx.json", "tokenizer.json"


class OnnxPredictor:
    """See `distill.predict_models.Model`."""

    def __init__(self, folder: Path, *, threads: int) -> None:
        """Load the model for the CPU.

        Raises:
            UserError: a missing or damaged file, or ONNX Runtime is not installed.
        """
        self.config: Mapping[str, Any] = read_config(folder)
        about = _description(folder)
        self._session = _session(folder / ONNX_WEIGHTS, threads)
        self._inputs = [value.name for value in self._session.get_inputs()]
        self._outputs = [value.name for value in self._session.get_outputs()]
        self._pad = int(self.config.get("pad_token_id") or 0)
        self.tokenizer = _tokenizer(folder)
        self.max_length = int(about["max_length"])
        self.most = self.max_length
        self.words = f"ONNX Runtime {about['precision']}, {threads} thread{'s' if threads > 1 else ''}"

    def outputs(self, batches: Sequence[Sequence[Encoding]]) -> Iterator[Mapping[str, np.ndarray]]:
        """ONNX Runtime spreads each batch over the threads itself."""
        return map(self._run, batches)

    def _run(self, batch: Sequence[Encoding]) -> Mapping[str, np.ndarray]:
        length = max(len(encoding.ids) for encoding in batch)
        filled = {
            "input_ids": _filled([encoding.ids for encoding in batch], length, self._pad),
            "attention_mask": _filled([encoding.attention_mask for encoding in batch], length, 0),
            "token_type_ids": _filled([encoding.type_ids for encoding in batch], length, 0),
        }
        found = self._session.run(self._outputs, {name: filled[name] for name in self._inputs})
        return dict(zip(self._outputs, found, strict=True))


def _filled(rows: Sequence[Sequence[int]], length: int, fill: int) -> np.ndarray:
    return np.array([[*row, *[fill] * (length - len(row))] for row in rows], dtype=np.int64)


def _description(folder: Path) -> Mapping[str, Any]:
    path = folder / DESCRIPTION
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        return {"max_length": int(value["max_length"]), "precision": str(value["precision"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is missing or damaged ({first_line(error)}): export the model again") from error


def _tokenizer(folder: Path) -> Tokenizer:
    path = folder / TOKENIZER
    try:
        return Tokenizer.from_file(str(path))
    # The tokenizers library raises plain Exception for a missing or damaged file.
    except Exception as error:
        raise UserError(f"{path} is missing or damaged ({first_line(error)}): export the model again") from error


def _session(path: Path, threads: int) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise UserError(f"{path} needs ONNX Runtime: pip install 'distillery[onnx]'") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Warnings about nodes that run elsewhere mean nothing to a user.
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    # Its error classes are not part of its public interface.
    except Exception as error:
        raise UserError(f"{path} cannot be loaded ({first_line(error)[:200]}): export the model again") from error
