"""Finds the model that a folder holds, and loads it with the runtime that its files are for.

torch and transformers are imported only for a model that needs them: an ONNX folder answers long before they are there.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from tokenizers import Encoding, Tokenizer

from common.errors import UserError
from common.files import read_object
from common.progress import say
from distill.predict_chains import shipped, without_steps

CONFIG, TORCH_WEIGHTS, ONNX_WEIGHTS = "config.json", "model.safetensors", "model.onnx"
DEEPEST = 4
"""Folders below a run's folder in which its models lie."""

Precision = Literal["fp32", "bf16"]


class Model(Protocol):
    """A model of any runtime."""

    config: Mapping[str, Any]
    """Its config.json."""
    tokenizer: Tokenizer
    max_length: int
    """Pieces of a text as the task had them in training, or else as many as the model takes."""
    most: int
    """Pieces that the model takes at all."""
    words: str
    """Runtime and precision."""

    def outputs(self, batches: Sequence[Sequence[Encoding]]) -> Iterator[Mapping[str, np.ndarray]]:
        """Outputs by name, (texts, ...), for each batch in order."""
        ...


def load_model(folder: Path, *, threads: int, precision: Precision | None) -> Model:
    """The model of a model folder, of an ONNX folder, or of a run that holds one model.

    Raises:
        UserError: none is there, several are, or the one is damaged.
    """
    found = find_model(folder)
    if (found / TORCH_WEIGHTS).is_file():
        from distill.predict_torch import TorchModel

        return TorchModel(found, threads=threads, precision=precision or "fp32")
    if precision is not None:
        raise UserError(f"--precision {precision}: {found} is an ONNX model, whose precision was settled on exporting")
    from distill.predict_onnx import OnnxPredictor

    return OnnxPredictor(found, threads=threads)


def find_model(folder: Path) -> Path:
    """The folder with the model's files: `folder`, the one that a chain of steps in it ends with, or the only one.

    Raises:
        UserError: it is not there, holds no model, or holds several, which are named.
    """
    if not folder.exists():
        raise UserError(f"--model {folder} does not exist: the folder of a model or of a run was expected")
    if not folder.is_dir():
        raise UserError(f"--model {folder} is a file: the folder that it lies in was expected")
    if _holds_model(folder):
        return folder
    if _holds_model(folder / "model"):
        return folder / "model"
    last = shipped(folder)
    if last is not None:
        say(f"model: {last}, the last of its chain")
        return last
    every = sorted(
        path for depth in range(1, DEEPEST + 1) for path in folder.glob("/".join("*" * depth)) if _named(path)
    )
    inside = without_steps(every, folder)
    if len(inside) == 1:
        return inside[0]
    if inside:
        shown = ", ".join(map(str, inside[:8])) + (", ..." if len(inside) > 8 else "")
        note = "" if len(inside) == len(every) else " (steps on the way to one are not named)"
        raise UserError(f"--model {folder} holds {len(inside)} models: give one of {shown}{note}")
    _explain_none(folder)
    raise UserError(
        f"--model {folder} holds no model: {CONFIG} and {TORCH_WEIGHTS} or {ONNX_WEIGHTS} were expected in it"
    )


def _named(path: Path) -> bool:
    return not any(part.startswith(".") for part in path.parts[-DEEPEST:]) and _holds_model(path)


def _holds_model(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and any((folder / name).is_file() for name in (TORCH_WEIGHTS, ONNX_WEIGHTS))


def _explain_none(folder: Path) -> None:
    """Raise UserError where a model folder lacks a file, which is another mistake than a folder of something else."""
    here = [name for name in (CONFIG, TORCH_WEIGHTS, ONNX_WEIGHTS, "tokenizer.json") if (folder / name).is_file()]
    if here and (len(here) > 1 or here[0] != CONFIG):
        lacking = CONFIG if CONFIG not in here else f"its weights ({TORCH_WEIGHTS} or {ONNX_WEIGHTS})"
        raise UserError(f"--model {folder} lacks {lacking}: save the model again")


def read_config(folder: Path) -> dict[str, Any]:
    """config.json of a model folder.

    Raises:
        UserError: damaged.
    """
    return read_object(folder / CONFIG, advice="save the model again")


def trained_length(folder: Path) -> int | None:
    """Pieces of a text in training, which the tokenizer's file says; None where it does not."""
    path = folder / "tokenizer.json"
    truncation = read_object(path, advice="save the model again").get("truncation") if path.is_file() else None
    return int(truncation["max_length"]) if truncation is not None else None
