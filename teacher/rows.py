"""Train only the embedding rows that occur: a batch of short texts touches some hundred of 30,000.

The gradient of an embedding table is dense, so every step clears, clips and updates all rows. Here the rows of the
pieces that occur in the data stand in a small table while a stage trains, and are put back afterwards. The other rows
stay as they were (plain AdamW would shrink them by the weight decay).
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel


class RowSubset(nn.Module):
    """An embedding of the rows `ids` of a larger table; takes the larger table's ids."""

    def __init__(self, table: nn.Embedding, ids: Tensor) -> None:
        super().__init__()
        self.rows = nn.Parameter(table.weight.detach()[ids].clone())
        self.lookup: Tensor
        lookup = torch.full((table.num_embeddings,), -1, dtype=torch.int64, device=ids.device)
        lookup[ids] = torch.arange(len(ids), device=ids.device)
        self.register_buffer("lookup", lookup, persistent=False)
        padding = -1 if table.padding_idx is None else int(lookup[table.padding_idx])
        self.padding_idx = None if padding < 0 else padding
        self._gradient: Tensor | None = None
        self._touched = torch.empty(0, dtype=torch.int64)

    def forward(self, input_ids: Tensor) -> Tensor:
        return functional.embedding(self.lookup[input_ids], self.rows, padding_idx=self.padding_idx)

    @contextlib.contextmanager
    def narrowed(self, input_ids: Sequence[Tensor]) -> Iterator[None]:
        """Within the block the rows of these ids are all there are, and get a gradient of their size.

        Afterwards it is part of the gradient of all rows, whose zeros are written once and not at every step.
        """
        places = self.lookup[torch.cat([ids.flatten() for ids in input_ids])].unique()
        rows, lookup, padding = self.rows, self.lookup, self.padding_idx
        self.rows = nn.Parameter(rows.detach()[places], requires_grad=rows.requires_grad)
        numbers = torch.full((len(rows),), -1).index_copy(0, places, torch.arange(len(places)))
        self.lookup = torch.where(lookup >= 0, numbers[lookup], lookup)
        self.padding_idx = None if padding is None or numbers[padding] < 0 else int(numbers[padding])
        few = self.rows
        try:
            yield
        finally:
            self.rows, self.lookup, self.padding_idx = rows, lookup, padding
        if few.grad is not None:
            self._hand_over(few.grad, places)

    def _hand_over(self, gradient: Tensor, places: Tensor) -> None:
        if self.rows.grad is not None:
            self.rows.grad.index_add_(0, places, gradient)
            self._touched = torch.cat([self._touched, places])
            return
        if self._gradient is None:
            self._gradient = torch.zeros_like(self.rows)
        self.rows.grad = self._gradient.index_fill_(0, self._touched, 0.0).index_copy_(0, places, gradient)
        self._touched = places


def homes_of(table: nn.Embedding, module: nn.Module) -> list[tuple[nn.Module, str]]:
    """The modules inside `module` that `table` is a child of, and its name there."""
    return [(part, name) for part in module.modules() for name, child in part.named_children() if child is table]


@contextlib.contextmanager
def few_rows(
    table: nn.Embedding, homes: Sequence[tuple[nn.Module, str]], input_ids: Sequence[Tensor]
) -> Iterator[None]:
    """Within the block the rows of these ids stand in the place of `table`, a child of `homes` by these names.

    Afterwards their gradient is added to that of the table, which may be tied to something else.
    """
    places = torch.cat([ids.flatten() for ids in input_ids]).unique()
    few = RowSubset(table, places)
    few.rows.requires_grad_(table.weight.requires_grad)
    for part, name in homes:
        part._modules[name] = few
    try:
        yield
    finally:
        for part, name in homes:
            part._modules[name] = table
    if few.rows.grad is not None:
        if table.weight.grad is None:
            table.weight.grad = torch.zeros_like(table.weight)
        table.weight.grad.index_add_(0, places, few.rows.grad)


@contextlib.contextmanager
def only_rows(model: PreTrainedModel, ids: Tensor) -> Iterator[None]:
    """Within the block `model` has only the embedding rows `ids`; afterwards all again, these as trained."""
    table = cast(nn.Embedding, model.get_input_embeddings())
    subset = RowSubset(table, ids.to(table.weight.device))
    model.set_input_embeddings(subset)
    try:
        yield
    finally:
        with torch.no_grad():
            table.weight[ids] = subset.rows
        model.set_input_embeddings(table)
