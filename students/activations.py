"""How active each unit of a teacher with BERT's layers is on text: what pruning and the ALBERT start are decided by."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from common.errors import UserError
from students.mapping import as_bert, has_bert_layers

MOMENT_SITES = ("embeddings", "context", "attention", "ffn", "output")
"""Sites that feed a linear layer; "query" and "key" do not."""


@dataclass(frozen=True, kw_only=True)
class Activations:
    """Statistics over the real tokens of some batches.

    A site is "embeddings" (the embedding output), or "{layer}." and "query", "key", "context" (the attended values),
    "attention" (after the attention's LayerNorm), "ffn" (after the activation function) or "output" (of the layer).
    """

    tokens: int
    """Real tokens counted."""
    mean_absolute: Mapping[str, Tensor]
    """Site to the mean of |x| a unit, shape (width,)."""
    moments: Mapping[str, Tensor]
    """Site to the mean of [x, 1] [x, 1]^T, shape (width + 1, width + 1); the sites of MOMENT_SITES only."""
    places: Tensor
    """Distinct (token id, segment, position), shape (n, 3)."""
    counts: Tensor
    """How often each of `places` occurred, shape (n,)."""


class _Counter:
    def __init__(self) -> None:
        self.mask = torch.zeros(0)
        self.sums: dict[str, Tensor] = {}
        self.products: dict[str, Tensor] = {}

    def add(self, site: str, states: Tensor) -> None:
        """`states` (batch, length, width) of the batch that `mask` belongs to."""
        x = states[self.mask].float()
        self.sums[site] = self.sums.get(site, 0) + x.abs().sum(0)
        if site.rpartition(".")[2] in MOMENT_SITES:
            x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
            self.products[site] = self.products.get(site, 0) + x.T @ x


@torch.inference_mode()
def gather_activations(teacher: PreTrainedModel, batches: Iterable[Mapping[str, Tensor]]) -> Activations:
    """Run the teacher over `batches` (input_ids, and attention_mask and token_type_ids where there are any).

    The teacher runs in evaluation mode and is left in the mode it was in. Memory: the square of each width a site:
    65 MB for 6 layers of 384, 550 MB for 12 of 768. A few thousand tokens are enough.

    Raises:
        UserError: a teacher without BERT's layers, or no batch.
    """
    if not has_bert_layers(teacher.config):
        raise UserError(f"a teacher of the type {teacher.config.model_type!r} has no layers of BERT's kind to look at")
    bert: Any = as_bert(teacher).base_model
    counter, places, training = _Counter(), [], teacher.training
    bert.eval()
    try:
        with _hooks(bert, counter):
            for batch in batches:
                inputs = _inputs(batch, bert)
                counter.mask = inputs["attention_mask"].bool()
                bert(**inputs)
                places.append(_places(inputs, counter.mask))
    finally:
        teacher.train(training)
    if not places:
        raise UserError("no batch to gather activations from: give one or more")
    distinct, counts = torch.unique(torch.cat(places), dim=0, return_counts=True)
    tokens = int(counts.sum())
    return Activations(
        tokens=tokens,
        mean_absolute={site: (total / tokens).cpu() for site, total in counter.sums.items()},
        moments={site: (total / tokens).cpu() for site, total in counter.products.items()},
        places=distinct,
        counts=counts,
    )


def _inputs(batch: Mapping[str, Tensor], bert: PreTrainedModel) -> dict[str, Tensor]:
    device = bert.device
    ids = batch["input_ids"].to(device)
    mask = batch.get("attention_mask")
    segments = batch.get("token_type_ids") if bert.config.type_vocab_size > 1 else None
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids) if mask is None else mask.to(device),
        "token_type_ids": torch.zeros_like(ids) if segments is None else segments.to(device),
    }


def _places(inputs: Mapping[str, Tensor], mask: Tensor) -> Tensor:
    ids = inputs["input_ids"]
    positions = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    return torch.stack([ids, inputs["token_type_ids"], positions], dim=-1)[mask].cpu()


@contextmanager
def _hooks(bert: Any, counter: _Counter) -> Iterator[None]:
    """Count at every site while the block runs."""

    def output(site: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        return lambda module, inputs, result: counter.add(site, result)

    def input_of(site: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        return lambda module, inputs, result: counter.add(site, inputs[0])

    handles = [bert.embeddings.LayerNorm.register_forward_hook(output("embeddings"))]
    for index, layer in enumerate(bert.encoder.layer):
        attention = layer.attention
        handles += [
            attention.self.query.register_forward_hook(output(f"{index}.query")),
            attention.self.key.register_forward_hook(output(f"{index}.key")),
            attention.output.dense.register_forward_hook(input_of(f"{index}.context")),
            attention.output.LayerNorm.register_forward_hook(output(f"{index}.attention")),
            layer.output.dense.register_forward_hook(input_of(f"{index}.ffn")),
            layer.output.LayerNorm.register_forward_hook(output(f"{index}.output")),
        ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def weight_norms(bert: Any) -> dict[str, Tensor]:
    """A stand-in for mean activations, from weights alone: norms of what writes a unit times norms of what reads it."""

    def rows(module: Any) -> Tensor:
        return module.weight.float().cpu().norm(dim=1)

    def columns(module: Any) -> Tensor:
        return module.weight.float().cpu().norm(dim=0)

    def stream(writes: Tensor, norm: Any) -> Tensor:
        # Each site counts alike, however large its matrix is.
        size = writes * norm.weight.float().cpu().abs()
        return size / size.mean()

    norms = {"embeddings": stream(columns(bert.embeddings.word_embeddings), bert.embeddings.LayerNorm)}
    for index, layer in enumerate(bert.encoder.layer):
        attention = layer.attention
        norms |= {
            f"{index}.query": rows(attention.self.query),
            f"{index}.key": rows(attention.self.key),
            f"{index}.context": rows(attention.self.value) * columns(attention.output.dense),
            f"{index}.attention": stream(rows(attention.output.dense), attention.output.LayerNorm),
            f"{index}.ffn": rows(layer.intermediate.dense) * columns(layer.output.dense),
            f"{index}.output": stream(rows(layer.output.dense), layer.output.LayerNorm),
        }
    return norms
