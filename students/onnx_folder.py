"""The folder that an exported model lives in, and what it says about itself. Imports neither torch nor ONNX Runtime.

model.onnx, tokenizer.json (which pads and truncates by itself), config.json as transformers has it, onnx.json (this
file's `OnnxInfo`), README.md, and the manifest that every model folder has.
"""

import importlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import ModuleType
from typing import Any

from common.errors import UserError

MODEL, TOKENIZER, CONFIG, INFO, CARD = "model.onnx", "tokenizer.json", "config.json", "onnx.json", "README.md"
CHOICE = "multiple-choice"
"""Every choice with its text is a row; a text's choices are compared outside of the model."""
KINDS = {
    "SequenceClassification": "sequence-classification",
    "TokenClassification": "token-classification",
    "QuestionAnswering": "question-answering",
    "MultipleChoice": CHOICE,
}
"""Ends of transformers' class names to kinds of heads."""
OUTPUTS = {
    "sequence-classification": ("logits",),
    "token-classification": ("logits",),
    "question-answering": ("start_logits", "end_logits"),
    CHOICE: ("logits",),
}


@dataclass(frozen=True, kw_only=True)
class OnnxInfo:
    """What onnx.json says."""

    kind: str
    """One of `OUTPUTS`."""
    max_length: int
    """Pieces of a text with its specials, at most; the position table has as many rows."""
    precision: str
    """fp32, or how it was quantised: int8 dynamic, int8 static."""
    inputs: tuple[str, ...]
    """Names, each int64 (batch, length)."""
    outputs: tuple[str, ...]
    """Names; float32, (batch, labels), labels being 1 for a choice's score, or (batch, length, labels) and (batch,
    length) where each piece has a value."""
    labels: tuple[str, ...]
    """Names of classes, in index order."""
    opset: int
    fused: Mapping[str, int] = field(default_factory=dict)
    """Fused operators of ONNX Runtime and their counts."""
    providers: tuple[str, ...] = ("CPUExecutionProvider",)
    """Execution providers that it was measured with."""
    problem: str | None = None
    """Of a classifier of texts, transformers' problem_type: what its outputs are."""
    quantised: Mapping[str, Any] = field(default_factory=dict)
    """Of a quantised one: embedding bits, and the parts that were left in fp32."""


def read_info(folder: Path) -> OnnxInfo:
    """onnx.json of a folder.

    Raises:
        UserError: no folder, no model in it, or a damaged file.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder: one with {MODEL} and {INFO} was expected")
    missing = [name for name in (MODEL, TOKENIZER, INFO) if not (folder / name).is_file()]
    if missing:
        raise UserError(f"{folder} lacks {' and '.join(missing)}: export the model again")
    try:
        value = json.loads((folder / INFO).read_text(encoding="utf-8"))
        known = {entry.name for entry in fields(OnnxInfo)}
        values: dict[str, Any] = {name: tuple(part) if isinstance(part, list) else part for name, part in value.items()}
        for name in values.keys() - known:
            del values[name]
        return OnnxInfo(**values)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"{folder / INFO} is damaged ({error}): export the model again") from error


def info_json(info: OnnxInfo) -> dict[str, Any]:
    """What `read_info` reads."""
    return asdict(info)


def folder_bytes(folder: Path) -> int:
    """Bytes of all files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def need(module: str) -> ModuleType:
    """Import a module of the extra "onnx".

    Raises:
        UserError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = (error.name or module).partition(".")[0]
        raise UserError(
            f"ONNX needs the package {missing!r}, which is not installed: pip install 'distillery[onnx]'"
        ) from error
