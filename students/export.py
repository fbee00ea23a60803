"""A model as a folder that ONNX Runtime and the tokenizers library run without torch."""

import contextlib
import json
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from common.artifact import check_free, write_manifest
from common.card import CardText, label_names
from common.errors import UserError
from common.files import new_folder, write_json, write_text
from common.progress import say
from common.quantised import refuse_int8
from students.onnx_card import onnx_card
from students.onnx_folder import CARD, CONFIG, INFO, MODEL, TOKENIZER, OnnxInfo, folder_bytes, info_json, need
from students.onnx_ready import Ready, as_rows, head_kind, input_names, positions
from students.runtime import OnnxModel

OPSET = 20
"""The first in which GELU is an operator."""
TOLERANCE = 1e-4
"""Greatest difference between torch's outputs and ONNX Runtime's; relative to the largest output if that exceeds 1."""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What was exported."""

    folder: Path
    info: OnnxInfo
    model_bytes: int
    """Of model.onnx."""
    folder_bytes: int
    """Of all files."""
    difference: float
    """Greatest difference between torch's outputs and ONNX Runtime's over ragged random batches."""


def export_onnx(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    *,
    max_length: int,
    pairs: bool = True,
    card: CardText | None = None,
    replace: bool = False,
) -> Exported:
    """Write `model` as an ONNX folder in fp32, with fused operators, any batch and any length up to `max_length`.

    Args:
        model: an encoder with a head for texts, pieces, spans or choices; it is left as it is.
        tokenizer: one of the tokenizers library.
        folder: is made.
        max_length: pieces of a text with specials. Longer texts are truncated, and the table of positions has so many
            rows: fewer make the file smaller.
        pairs: whether texts may be pairs. False leaves out the input of segments, where the model has one.
        card: what README.md says beyond what the model knows.
        replace: replace a model folder that is there already.

    Raises:
        UserError: onnx or onnxruntime is missing, the folder is taken, the model or the tokenizer is of no kind that
            can be exported, `max_length` exceeds the positions, or the exported model does not give the model's
            outputs.
    """
    for module in ("onnx", "onnxscript", "onnxruntime"):
        need(module)
    refuse_int8(model, "exported")
    longest = positions(model)
    if not 2 < max_length <= longest:
        raise UserError(
            f"max_length {max_length}: 3 to {longest} was expected, since the model has {longest} positions"
        )
    check_free(folder, replace=replace)
    inputs = input_names(model, pairs=pairs)
    with new_folder(folder) as target:
        info = _write_model(model, inputs, target, max_length)
        write_json(target / CONFIG, _config(model))
        write_text(target / TOKENIZER, _tokenizer_json(tokenizer, max_length))
        write_json(target / INFO, info_json(info))
        difference = _check_outputs(model, target, info)
        write_text(target / CARD, onnx_card(info, card, (target / MODEL).stat().st_size))
        write_manifest(target)
    _warn_of_unfused(model, info)
    return Exported(
        folder=folder,
        info=info,
        model_bytes=(folder / MODEL).stat().st_size,
        folder_bytes=folder_bytes(folder),
        difference=difference,
    )


def _write_model(model: PreTrainedModel, inputs: tuple[str, ...], folder: Path, max_length: int) -> OnnxInfo:
    import onnx

    from students.onnx_fuse import fuse, fused_counts

    ready = Ready(model, inputs, max_length=max_length)
    graph = fuse(_trace(ready))
    onnx.save_model(graph, folder / MODEL)
    return OnnxInfo(
        kind=head_kind(model),
        max_length=max_length,
        precision="fp32",
        inputs=inputs,
        outputs=ready.outputs,
        labels=tuple(label_names(model.config)),
        problem=_problem(model),
        opset=OPSET,
        fused=fused_counts(graph),
    )


def _problem(model: PreTrainedModel) -> str | None:
    """What a classifier's outputs are; None for other heads."""
    if head_kind(model) != "sequence-classification":
        return None
    plain = "regression" if model.config.num_labels == 1 else "single_label_classification"
    return str(model.config.problem_type or plain)


def _trace(ready: Ready) -> Any:
    """The ONNX model as torch's exporter writes it."""
    ids = torch.ones(2, 3, dtype=torch.int64)
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            ready,
            tuple(ids.clone() for _ in ready.inputs),
            dynamo=True,
            opset_version=OPSET,
            input_names=list(ready.inputs),
            output_names=list(ready.outputs),
            dynamic_shapes=(tuple({0: batch, 1: length} for _ in ready.inputs),),
            verbose=False,
        )
    if program is None:
        raise RuntimeError("torch's exporter gave nothing")
    return program.model_proto


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's notes for its own developers off the terminal."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _config(model: PreTrainedModel) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(model.config.to_json_string(use_diff=False))
    names = label_names(model.config)
    value["id2label"] = {str(index): name for index, name in enumerate(names)}
    value["label2id"] = {name: index for index, name in enumerate(names)}
    value["architectures"] = [type(model).__name__]
    return value


def _tokenizer_json(tokenizer: PreTrainedTokenizerBase, max_length: int) -> str:
    """tokenizer.json that pads to a batch's longest text, at the end, and truncates."""
    from tokenizers import Tokenizer

    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or tokenizer.pad_token_id is None:
        raise UserError(
            f"{type(tokenizer).__name__} cannot be exported: a tokenizer with a tokenizer.json and a piece for padding "
            "was expected"
        )
    own = Tokenizer.from_str(backend.to_str())
    own.enable_truncation(max_length)
    own.enable_padding(pad_id=tokenizer.pad_token_id, pad_token=str(tokenizer.pad_token))
    return own.to_str()


def _check_outputs(model: PreTrainedModel, folder: Path, info: OnnxInfo) -> float:
    """The greatest difference between torch and ONNX Runtime over ragged batches of random pieces."""
    runtime, worst = OnnxModel(folder), 0.0
    for seed, (rows, length) in enumerate([(1, 3), (3, info.max_length), (4, (info.max_length + 3) // 2)]):
        batch = _ragged_batch(model, info, rows, length, seed)
        ours, theirs = _torch_outputs(model, info, batch), runtime.run(batch)
        for name, output in ours.items():
            real = batch["attention_mask"].astype(bool) if output.shape[:2] == batch["input_ids"].shape else slice(None)
            scale = max(1.0, float(np.abs(output[real]).max()))
            worst = max(worst, float(np.abs(output[real] - theirs[name][real]).max()) / scale)
    if not worst <= TOLERANCE:
        raise UserError(
            f"{type(model).__name__}: the exported model's outputs differ from the model's by {worst:.2g}, more than "
            f"{TOLERANCE:g}: this architecture cannot be exported"
        )
    return worst


def _ragged_batch(model: PreTrainedModel, info: OnnxInfo, rows: int, length: int, seed: int) -> dict[str, np.ndarray]:
    """Pieces that are not padding, with padding after the first `n` of each row; the first row is full."""
    generator = np.random.default_rng(seed)
    padding = int(model.config.pad_token_id or 0)
    ids = generator.integers(0, model.config.vocab_size, (rows, length))
    ids[ids == padding] = padding + 1
    lengths = np.array([length, *generator.integers(2, length + 1, rows - 1)])
    mask = (np.arange(length) < lengths[:, None]).astype(np.int64)
    types = mask * (np.arange(length) >= length // 2)
    arrays = {"input_ids": np.where(mask == 1, ids, padding), "attention_mask": mask, "token_type_ids": types}
    return {name: arrays[name] for name in info.inputs}


@torch.no_grad()
def _torch_outputs(model: PreTrainedModel, info: OnnxInfo, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        inputs = {name: torch.from_numpy(array).to(model.device) for name, array in batch.items()}
        result = model(**as_rows(inputs, info.kind))
        return {name: result[name].float().cpu().numpy() for name in info.outputs}
    finally:
        for module, training in modes:
            module.training = training


def _warn_of_unfused(model: PreTrainedModel, info: OnnxInfo) -> None:
    layers, fused = (
        int(model.config.num_hidden_layers),
        sum(info.fused.get(name, 0) for name in ("Attention", "MultiHeadAttention")),
    )
    if fused < layers:
        say(f"warning: {fused} of {layers} attentions were fused: the exported model is slower than it could be")
