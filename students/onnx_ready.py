"""A copy of a model in the form in which it is exported: fused attention, short look-up tables, inputs in order.

Exporters trace attention as a dozen small operators, and tools that look for the pattern afterwards miss it whenever
transformers or torch write it another way. Here the attention function itself is replaced, by one that is a single
operator of ONNX Runtime and takes the padding mask as the tokenizer gives it. So no mask is folded into a constant.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface

from common.errors import UserError
from students.onnx_folder import CHOICE, KINDS, OUTPUTS

ATTENTION = "onnx_runtime"


def head_kind(model: PreTrainedModel) -> str:
    """The kind of a model's head.

    Raises:
        UserError: none that can be exported.
    """
    name = type(model).__name__
    for end, kind in KINDS.items():
        if name.endswith(f"For{end}"):
            return kind
    raise UserError(f"{name} cannot be exported: a model for {', '.join(KINDS.values())} was expected")


def input_names(model: PreTrainedModel, *, pairs: bool) -> tuple[str, ...]:
    """What the exported model takes; segments only where the model has several and texts may be pairs."""
    segments = getattr(_embeddings(model), "token_type_embeddings", None)
    several = segments is not None and segments.num_embeddings > 1
    return ("input_ids", "attention_mask", *(("token_type_ids",) if several and pairs else ()))


def positions(model: PreTrainedModel) -> int:
    """The longest text in pieces that the model takes."""
    return int(_embeddings(model).position_embeddings.num_embeddings) - _first_position(model)


def as_rows(inputs: Mapping[str, Tensor], kind: str) -> dict[str, Tensor]:
    """Inputs (rows, length) as a model with this kind of head takes them: each row is the one choice of its text."""
    return {name: array.unsqueeze(1) if kind == CHOICE else array for name, array in inputs.items()}


class Ready(nn.Module):
    """Takes `inputs` in order and gives the outputs of its head's kind, in order, in fp32."""

    def __init__(self, model: PreTrainedModel, inputs: Sequence[str], *, max_length: int) -> None:
        super().__init__()
        AttentionInterface.register(ATTENTION, _attention)
        AttentionMaskInterface.register(ATTENTION, _padding_mask)
        first, segments = _first_position(model), "token_type_ids" in inputs
        self.inputs, self.kind = tuple(inputs), head_kind(model)
        self.outputs = OUTPUTS[self.kind]
        self.model = copy.deepcopy(model).float().cpu()
        self.model.set_attn_implementation(ATTENTION)
        base: Any = self.model.base_model
        base.embeddings = ShortEmbeddings(base.embeddings, first=first, rows=max_length, segments=segments)
        self.eval()

    def forward(self, *arrays: Tensor) -> tuple[Tensor, ...]:
        result = self.model(**as_rows(dict(zip(self.inputs, arrays, strict=True)), self.kind))
        return tuple(result[name] for name in self.outputs)


class ShortEmbeddings(nn.Module):
    """A family's embeddings with only so many positions, and without segments where there is only one.

    Piece n has position n, which is what every family gives a text that is padded at its end.
    """

    def __init__(self, old: nn.Module, *, first: int, rows: int, segments: bool) -> None:
        super().__init__()
        old_parts: Any = old
        self.word_embeddings, self.LayerNorm = old_parts.word_embeddings, old_parts.LayerNorm
        table = old_parts.position_embeddings.weight[first : first + rows].detach().clone()
        types = getattr(old_parts, "token_type_embeddings", None)
        if types is not None and not segments:
            table += types.weight[0].detach()
        self.types = types if segments else None
        self.positions = nn.Parameter(table, requires_grad=False)

    def forward(
        self, input_ids: Tensor, *others: object, token_type_ids: Tensor | None = None, **named: object
    ) -> Tensor:
        states = self.word_embeddings(input_ids) + self.positions[: input_ids.shape[1]]
        return self.LayerNorm(states if self.types is None else states + self.types(token_type_ids))


def _embeddings(model: PreTrainedModel) -> Any:
    embeddings = getattr(model.base_model, "embeddings", None)
    parts = ("word_embeddings", "position_embeddings", "LayerNorm")
    # DeBERTa has the name without a table.
    if any(getattr(embeddings, name, None) is None for name in parts):
        raise UserError(
            f"{type(model).__name__} cannot be exported: an encoder with a table of positions was expected (BERT, "
            "DistilBERT, ALBERT, RoBERTa, XLM-R, ELECTRA)"
        )
    return embeddings


def _first_position(model: PreTrainedModel) -> int:
    """RoBERTa's positions begin after the one of padding."""
    padding = getattr(_embeddings(model), "padding_idx", None)
    return 0 if padding is None else int(padding) + 1


def _padding_mask(attention_mask: Tensor | None = None, **others: object) -> Tensor:
    if attention_mask is None:
        raise ValueError("an attention mask was expected")
    return attention_mask.to(torch.int32)


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    scaling: float | None = None,
    **others: object,
) -> tuple[Tensor, None]:
    """softmax(Q K^T scaling + mask) V of (b, h, l, d_k) as one node, for the exporter alone; (b, l, h, d_k)."""
    batch, heads, length, width = query.shape
    flat = [part.transpose(1, 2).flatten(2) for part in (query, key, value)]
    mixed = torch.onnx.ops.symbolic(
        "com.microsoft::MultiHeadAttention",
        (*flat, None, attention_mask),
        {"num_heads": heads, "scale": float(width**-0.5 if scaling is None else scaling)},
        dtype=flat[0].dtype,
        shape=flat[0].shape,
        version=1,
    )
    return mixed.view(batch, length, heads, width), None
