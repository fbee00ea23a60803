"""Predictions by torch, of the model folders that training writes."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from tokenizers import Encoding, Tokenizer
from transformers import PreTrainedModel

from common.artifact import load
from common.families import max_length
from distill.predict_models import Precision, read_config, trained_length
from teacher.batches import attention_mask, padded, padded_length
from teacher.lanes import side_by_side
from teacher.loop_config import resolve_precision
from teacher.prepare import model_inputs


class TorchModel:
    """See `distill.predict_models.Model`."""

    def __init__(self, folder: Path, *, threads: int, precision: Precision) -> None:
        """Load the model, on a CUDA device where there is one.

        Raises:
            UserError: a missing or damaged file, or bf16 where it would be slower.
        """
        torch.set_num_threads(threads)
        self._bf16 = resolve_precision(precision) == "bf16"
        self._model, tokenizer = load(folder)
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._model.to(self._device)  # type: ignore[arg-type]
        self._pad = int(tokenizer.pad_token_id)
        self.config: Mapping[str, Any] = read_config(folder)
        self.tokenizer = cast(Tokenizer, tokenizer.backend_tokenizer)
        self.most = max_length(self._model.config)
        self.max_length = min(self.most, tokenizer.model_max_length, trained_length(folder) or self.most)
        self.words = f"torch {precision}"

    def outputs(self, batches: Sequence[Sequence[Encoding]]) -> Iterator[Mapping[str, np.ndarray]]:
        """Two batches at a time on a CPU with threads for it."""
        compute = partial(_outputs, self._model, self._pad, self.most, self._bf16)
        return side_by_side(compute, batches, device=self._device)


@torch.inference_mode()
def _outputs(
    model: PreTrainedModel, pad: int, limit: int, bf16: bool, batch: Sequence[Encoding]
) -> Mapping[str, np.ndarray]:
    """Every float output of the model by name, fp32, (texts, ...)."""
    rows = [np.asarray(encoding.ids, dtype=np.int64) for encoding in batch]
    types = [np.asarray(encoding.type_ids, dtype=np.int64) for encoding in batch]
    length = padded_length(map(len, rows), limit=limit)
    arrays = {
        "input_ids": padded(rows, length, pad),
        "attention_mask": attention_mask(rows, length),
        "token_type_ids": padded(types, length, 0),
    }
    inputs = model_inputs(model, {name: torch.from_numpy(array).to(model.device) for name, array in arrays.items()})
    with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
        found = model(**inputs)
    return {name: value.float().cpu().numpy() for name, value in found.items() if isinstance(value, torch.Tensor)}
