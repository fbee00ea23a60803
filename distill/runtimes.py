"""How artifacts are run: one way to ask any of them for logits, for quality and for milliseconds alike."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from common.families import max_length
from distill.compress_chain import Artifact
from distill.flops import flops
from distill.measure import count_embedding_parameters, count_parameters
from students.quantize_torch import torch_bf16, torch_int8
from teacher.prepare import model_inputs
from teacher.sources import load_for_task
from teacher.tasks.base import Task

Bound = Callable[[], np.ndarray]
"""A forward pass over inputs that are there already; gives logits (n, outputs), fp32."""


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """An artifact, loaded, and what runs it."""

    name: str
    """ "torch 2.13.0". """
    precision: str
    """ "fp32", "bf16", "int8". """
    bind: Callable[[Mapping[str, Tensor]], Bound]
    """From a batch (input_ids, attention_mask, token_type_ids) to the forward pass over it."""
    tokenizer: PreTrainedTokenizerBase
    vocabulary: int
    positions: int
    """The longest text in pieces."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What does not depend on the runtime."""

    parameters: int
    embedding_parameters: int
    flops: int


PRECISIONS: dict[str, Callable[[PreTrainedModel], PreTrainedModel]] = {"bf16": torch_bf16, "int8": torch_int8}
"""Precision in torch, other than fp32, to what makes a copy in it."""


def torch_runtime(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, precision: str = "fp32") -> Runtime:
    """A model in torch, or a copy of it in another of PRECISIONS."""
    own = model.eval() if precision == "fp32" else PRECISIONS[precision](model)

    def bind(batch: Mapping[str, Tensor]) -> Bound:
        inputs = model_inputs(own, batch)

        def run() -> np.ndarray:
            with torch.inference_mode():
                return own(**inputs).logits.float().numpy()

        return run

    return Runtime(
        name=f"torch {torch.__version__.partition('+')[0]}",
        precision=precision,
        bind=bind,
        tokenizer=tokenizer,
        vocabulary=int(model.config.vocab_size),
        positions=max_length(model.config),
    )


def _open_torch(artifact: Artifact, task: Task, precision: str) -> tuple[Runtime, Counts]:
    loaded = load_for_task(str(artifact.folder), task, seed=0)
    runtime = torch_runtime(loaded.model, loaded.tokenizer, precision)
    counts = Counts(
        parameters=count_parameters(loaded.model),
        embedding_parameters=count_embedding_parameters(loaded.model),
        flops=flops(loaded.model, length=min(128, runtime.positions)),
    )
    return runtime, counts


def _open_onnx(artifact: Artifact, task: Task, precision: str) -> tuple[Runtime, Counts | None]:
    from distill.onnx_runtime import open_onnx

    return open_onnx(artifact, task, precision)


RUNTIMES: dict[str, Callable[[Artifact, Task, str], tuple[Runtime, Counts | None]]] = {
    "torch": _open_torch,
    "onnx": _open_onnx,
}
"""Kind of artifact to what opens it in a precision; counts are None where they are those of the artifact before."""


def random_inputs(runtime: Runtime, *, batch: int, length: int) -> dict[str, Tensor]:
    """Seeded pieces, none of them padding."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(2, runtime.vocabulary, (batch, length), generator=generator)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
