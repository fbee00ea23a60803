"""An exported folder as a runtime of a chain: its own tokenizer, and ONNX Runtime on one thread."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from distill.compress_chain import Artifact
from distill.runtimes import Bind, Bound, Counts, Runtime
from students.onnx_folder import CONFIG, TOKENIZER, need
from students.runtime import OnnxModel
from teacher.prepare import NO_CHOICE
from teacher.tasks.base import CHOICES, Task


def open_onnx(artifact: Artifact, task: Task, precision: str) -> tuple[Runtime, Counts | None]:
    """The folder as it ships; what it counts is what the model counts that it was made from."""
    model = OnnxModel(artifact.folder, threads=1)
    config = json.loads((artifact.folder / CONFIG).read_text(encoding="utf-8"))
    runtime = Runtime(
        name=f"onnxruntime {need('onnxruntime').__version__}",
        precision=model.info.precision,
        bind=binder(model),
        tokenizer=onnx_tokenizer(artifact.folder),
        vocabulary=int(config["vocab_size"]),
        positions=model.info.max_length,
        settings={name: float(config[name]) for name in task.settings if name in config},
    )
    return runtime, None


def binder(model: OnnxModel) -> Bind:
    """What binds a batch to a forward pass of this model."""

    def bind(batch: Mapping[str, Tensor]) -> Bound:
        arrays = {name: np.ascontiguousarray(batch[name].numpy()) for name in model.info.inputs}
        there = batch[CHOICES].numpy() if CHOICES in batch else None
        return lambda: _read(model.run(arrays), there)

    return bind


def _read(outputs: Mapping[str, np.ndarray], there: np.ndarray | None) -> np.ndarray:
    """Logits as torch's models give them (`teacher.prepare.output_logits`): here each choice is a row of its own."""
    if "start_logits" in outputs:
        return np.stack([outputs["start_logits"], outputs["end_logits"]], axis=-1)
    logits = outputs["logits"]
    return logits if there is None else np.where(there, logits.reshape(there.shape), np.float32(NO_CHOICE))


def onnx_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """The tokenizer that an exported folder ships, as tasks take one."""
    own = Tokenizer.from_file(str(folder / TOKENIZER))
    return PreTrainedTokenizerFast(tokenizer_object=own, pad_token=(own.padding or {})["pad_token"])
