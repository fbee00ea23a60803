"""Runs an exported folder: what is measured is what ships. Imports neither torch nor transformers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from common.errors import UserError
from common.words import first_line
from students.onnx_folder import MODEL, TOKENIZER, OnnxInfo, need, read_info


class OnnxModel:
    """`OnnxModel(folder).logits({"input_ids": ..., "attention_mask": ..., "token_type_ids": ...})`.

    Arrays are int64 (batch, length); those that the model does not take are ignored.
    """

    def __init__(self, folder: Path | str, *, threads: int = 1) -> None:
        """Load the folder's model for so many threads.

        Raises:
            UserError: onnxruntime is missing, or the folder's files are missing or damaged.
        """
        self.folder = Path(folder)
        self.name = str(folder)
        self.info = read_info(self.folder)
        self.session = session(self.folder / MODEL, threads=threads, providers=self.info.providers)

    @classmethod
    def of(cls, model: bytes, info: OnnxInfo, *, folder: Path = Path(), threads: int = 1) -> "OnnxModel":
        """A model that is not in a folder yet; `folder` has its tokenizer."""
        new = cls.__new__(cls)
        new.folder, new.name, new.info = folder, "the model", info
        new.session = session(model, threads=threads, providers=info.providers)
        return new

    def run(self, batch: Mapping[str, np.ndarray], *, outputs: Sequence[str] | None = None) -> dict[str, np.ndarray]:
        """Outputs by name, the model's own if None.

        Raises:
            UserError: an input is missing, or a text too long.
        """
        missing = [name for name in self.info.inputs if name not in batch]
        if missing:
            raise UserError(f"{self.name} takes {', '.join(self.info.inputs)}: {', '.join(missing)} is missing")
        length = batch["input_ids"].shape[1]
        if length > self.info.max_length:
            raise UserError(
                f"{self.name} takes texts of {self.info.max_length} pieces, and this one has {length}: truncate it, "
                "or export with a greater max_length"
            )
        inputs = {name: np.ascontiguousarray(batch[name], dtype=np.int64) for name in self.info.inputs}
        names = list(self.info.outputs if outputs is None else outputs)
        return dict(zip(names, self.session.run(names, inputs), strict=True))

    def logits(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """The first output: (batch, labels) for texts, (batch, length, labels) for pieces."""
        return self.run(batch)[self.info.outputs[0]]

    def text_logits(
        self,
        ids: Sequence[np.ndarray],
        token_types: Sequence[np.ndarray] | None = None,
        *,
        batch_size: int = 32,
        padding: int | None = None,
    ) -> np.ndarray:
        """(n, labels) of ragged texts of pieces with specials, in their order; batches are of like length.

        `padding` is the id of the padding piece, the tokenizer's if None.
        """
        fill = self.padding if padding is None else padding
        order = np.argsort([len(row) for row in ids], kind="stable")
        parts = []
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            segments = None if token_types is None else [token_types[index] for index in chosen]
            parts.append(self.logits(padded_batch([ids[index] for index in chosen], segments, padding=fill)))
        return np.concatenate(parts)[np.argsort(order)]

    @property
    def padding(self) -> int:
        """The id of the tokenizer's padding piece."""
        from tokenizers import Tokenizer

        return int((Tokenizer.from_file(str(self.folder / TOKENIZER)).padding or {}).get("pad_id", 0))


def padded_batch(
    ids: Sequence[np.ndarray], token_types: Sequence[np.ndarray] | None = None, *, padding: int = 0
) -> dict[str, np.ndarray]:
    """input_ids, attention_mask and token_type_ids (batch, longest) of ragged texts."""
    shape = (len(ids), max(len(row) for row in ids))
    arrays = {name: np.zeros(shape, dtype=np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")}
    arrays["input_ids"][:] = padding
    for place, row in enumerate(ids):
        arrays["input_ids"][place, : len(row)] = row
        arrays["attention_mask"][place, : len(row)] = 1
        if token_types is not None:
            arrays["token_type_ids"][place, : len(row)] = token_types[place]
    return arrays


def session(model: Path | bytes, *, threads: int = 1, providers: Sequence[str] = ("CPUExecutionProvider",)) -> Any:
    """An ONNX Runtime session with pinned threads that sleep between calls, since spinning ones take others' time.

    Raises:
        UserError: the file cannot be loaded.
    """
    runtime: Any = need("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    try:
        source = model if isinstance(model, bytes) else str(model)
        return runtime.InferenceSession(source, options, providers=list(providers))
    # ONNX Runtime has a dozen error classes of its own, without a common one.
    except Exception as error:
        name = "the model" if isinstance(model, bytes) else model
        raise UserError(f"{name} cannot be loaded ({first_line(error)[:200]}): export the model again") from error
