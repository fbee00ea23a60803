"""A student that takes over its teacher's table of pieces and nothing else."""

from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

PROJECTIONS = ("encoder.embedding_hidden_mapping_in", "embeddings_project", "embeddings.embed_proj")
"""Where the encoders with narrow tables (ALBERT, ELECTRA, DeBERTa) have the map to the width of their layers."""


@torch.no_grad()
def take_embeddings(student: PreTrainedModel, teacher: PreTrainedModel) -> None:
    """The student's table of pieces, in place, from that of a teacher of any family; all else stays as it is.

    A narrower table has the leading right singular vectors of the teacher's for its axes, so that the products of two
    pieces' rows are nearest to what they were. What the tables have no room for, such as positions, is not taken over.
    """
    table = wide_table(teacher)
    own = cast(nn.Embedding, student.get_input_embeddings()).weight
    own.copy_(leading(table, own.shape[1]))


def wide_table(teacher: PreTrainedModel) -> Tensor:
    """The teacher's table of pieces in the width of its hidden states, (vocabulary, width), fp32, on the CPU."""
    table = cast(nn.Embedding, teacher.get_input_embeddings()).weight.float().cpu()
    modules = dict(teacher.base_model.named_modules())
    for path in PROJECTIONS:
        if path in modules and table.shape[1] != teacher.config.hidden_size:
            return table @ cast(Any, modules[path]).weight.float().cpu().T
    return table


def leading(table: Tensor, width: int) -> Tensor:
    """The table (n, d) in `width` columns: as it is, in its leading directions, or with columns of 0 behind.

    >>> leading(torch.tensor([[3.0, 0.0], [0.0, 1.0]]), 1).abs().tolist()
    [[3.0], [0.0]]
    """
    if table.shape[1] < width:
        return torch.nn.functional.pad(table, (0, width - table.shape[1]))
    if table.shape[1] == width:
        return table
    _, vectors = torch.linalg.eigh((table.T @ table).double())
    return table @ vectors[:, -width:].flip(1).float()
