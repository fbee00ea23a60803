"""An exported folder as a runtime of a chain: its own tokenizer, and ONNX Runtime on one thread."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from distill.compress_chain import Artifact
from distill.runtimes import Bound, Counts, Runtime
from students.onnx_folder import CONFIG, TOKENIZER, need
from students.runtime import OnnxModel
from teacher.tasks.base import Task


def open_onnx(artifact: Artifact, task: Task, precision: str) -> tuple[Runtime, Counts | None]:
    """The folder as it ships; what it counts is what the model counts that it was made from."""
    model = OnnxModel(artifact.folder, threads=1)

    def bind(batch: Mapping[str, Tensor]) -> Bound:
        arrays = {name: np.ascontiguousarray(batch[name].numpy()) for name in model.info.inputs}
        return lambda: model.logits(arrays)

    config = json.loads((artifact.folder / CONFIG).read_text(encoding="utf-8"))
    runtime = Runtime(
        name=f"onnxruntime {need('onnxruntime').__version__}",
        precision=model.info.precision,
        bind=bind,
        tokenizer=onnx_tokenizer(artifact.folder),
        vocabulary=int(config["vocab_size"]),
        positions=model.info.max_length,
    )
    return runtime, None


def onnx_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """The tokenizer that an exported folder ships, as tasks take one."""
    own = Tokenizer.from_file(str(folder / TOKENIZER))
    return PreTrainedTokenizerFast(tokenizer_object=own, pad_token=(own.padding or {})["pad_token"])
