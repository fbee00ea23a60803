"""How artifacts are run: one way to ask any of them for logits, for quality and for milliseconds alike."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from common.families import max_length
from distill.compress_chain import Artifact
from distill.flops import flops
from distill.measure import count_embedding_parameters, count_parameters
from students.quantize_torch import torch_bf16, torch_int8
from teacher.batches import sorted_batches
from teacher.prepare import in_order, model_inputs, output_logits, prepare_split, settings_of, to_length
from teacher.sources import load_for_task
from teacher.tasks.base import Encoded, Task

Bound = Callable[[], np.ndarray]
"""A forward pass over inputs that are there already; gives logits (n, outputs) or (n, length, outputs), fp32."""
Bind = Callable[[Mapping[str, Tensor]], Bound]
"""From a batch, as a task collates it, to the forward pass over it."""


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """An artifact, loaded, and what runs it."""

    name: str
    """ "torch 2.13.0". """
    precision: str
    """ "fp32", "bf16", "int8". """
    bind: Bind
    tokenizer: PreTrainedTokenizerBase
    vocabulary: int
    positions: int
    """The longest text in pieces."""
    settings: Mapping[str, float] = field(default_factory=dict)
    """Entries of the configuration that outputs are read with (`Task.settings`)."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What does not depend on the runtime."""

    parameters: int
    embedding_parameters: int
    flops: int


PRECISIONS: dict[str, Callable[[PreTrainedModel], PreTrainedModel]] = {"bf16": torch_bf16, "int8": torch_int8}
"""Precision in torch, other than fp32, to what makes a copy in it."""


def torch_runtime(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    precision: str = "fp32",
    settings: Mapping[str, float] | None = None,
) -> Runtime:
    """A model in torch, or a copy of it in another of PRECISIONS."""
    own = model.eval() if precision == "fp32" else PRECISIONS[precision](model)

    def bind(batch: Mapping[str, Tensor]) -> Bound:
        inputs = model_inputs(own, batch)

        def run() -> np.ndarray:
            with torch.inference_mode():
                return output_logits(own(**inputs), batch).float().numpy()

        return run

    return Runtime(
        name=f"torch {torch.__version__.partition('+')[0]}",
        precision=precision,
        bind=bind,
        tokenizer=tokenizer,
        vocabulary=int(model.config.vocab_size),
        positions=max_length(model.config),
        settings=settings or {},
    )


def _open_torch(artifact: Artifact, task: Task, precision: str) -> tuple[Runtime, Counts]:
    loaded = load_for_task(str(artifact.folder), task, seed=0)
    runtime = torch_runtime(loaded.model, loaded.tokenizer, precision, settings_of(loaded.model, task))
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


def split_logits(bind: Bind, task: Task, encoded: Encoded, *, pad: int, label: str | None = None) -> np.ndarray:
    """Logits of a whole split in its order, as `teacher.prepare.predict_logits` gives them, and as they come.

    `pad` is the id of the padding piece. With a `label` progress is shown.
    """

    def compute(indices: np.ndarray) -> np.ndarray:
        logits = bind(task.collate(encoded, list(indices), pad))()
        if task.per_position:
            return to_length(torch.from_numpy(logits), int(encoded.lengths.max())).numpy()
        return logits

    return in_order(compute, sorted_batches(encoded.lengths, 64), device=torch.device("cpu"), label=label)


def answered(
    runtime: Runtime, task: Task, split: str, max_length: int, *, label: str | None = None
) -> tuple[Encoded, np.ndarray]:
    """A split as the artifact's tokenizer cuts it; predictions are read by what was found on *select* (a threshold)."""
    encoded = prepare_split(task, runtime.tokenizer, split, min(max_length, runtime.positions))
    logits = split_logits(runtime.bind, task, encoded, pad=int(runtime.tokenizer.pad_token_id), label=label)
    return encoded, task.decode(task.tuned(logits, runtime.settings), encoded)


def random_inputs(runtime: Runtime, *, batch: int, length: int) -> dict[str, Tensor]:
    """Seeded pieces, none of them padding."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(2, runtime.vocabulary, (batch, length), generator=generator)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
