"""Within a step, lighter tensors stand in the place of parameters, which get their gradients afterwards.

Under autocast every half of a batch casts every weight to bf16 and its gradient back, and the gradient of an embedding
table is zeros but for the few rows of the batch. A step of 1,024 pieces of a 3/384 student took 113 ms with that, and
86 to 105 with stand-ins (SST-2, two cores).
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from teacher.rows import RowSubset, few_rows, homes_of


@dataclass(frozen=True, kw_only=True)
class Copy:
    """A parameter of linear layers, its copy in bf16, and the layers and names it is found at."""

    parameter: nn.Parameter
    copy: nn.Parameter
    places: tuple[tuple[nn.Module, str], ...]
    alone: bool
    """Nothing else has the parameter."""
    gradient: Tensor
    """Of the parameter's shape, in fp32: memory that is asked for at every step costs more than what is done in it."""

    def hand_over(self) -> None:
        """Add the copy's gradient to that of the parameter."""
        if self.copy.grad is None:
            return
        if self.parameter.grad is not None:
            self.parameter.grad.add_(self.copy.grad)
        elif self.alone:
            self.parameter.grad = self.gradient.copy_(self.copy.grad)
        else:
            # It may be set aside until the last batch of a step.
            self.parameter.grad = self.copy.grad.float()
        self.copy.grad = None


class StandIns:
    """Copies in bf16 of the linear layers' parameters, and the rows of embeddings that a batch needs.

    Args:
        module: what is trained, on the CPU.
        bf16: whether it is trained in bf16; in fp32 linear layers and `tables` stay as they are.
        tables: embeddings in it that are looked up for a batch's input_ids alone.
    """

    def __init__(self, module: nn.Module, *, bf16: bool, tables: Sequence[nn.Embedding] = ()) -> None:
        self._subsets = [part for part in module.modules() if isinstance(part, RowSubset)]
        # A frozen one has no gradient. In fp32 the order of a tied weight's sums stays that of several processes.
        used = [table for table in tables if bf16 and table.weight.requires_grad]
        self._tables = {table: homes_of(table, module) for table in used}
        self._copies = _copies(module, list(self._tables)) if bf16 else []

    @property
    def parameters(self) -> list[nn.Parameter]:
        """Those that something stands in for wherever they are: gradients are added in a fixed order."""
        return [entry.parameter for entry in self._copies if entry.alone] + [table.rows for table in self._subsets]

    @contextlib.contextmanager
    def placed(self, batches: Sequence[Mapping[str, Tensor]]) -> Iterator[None]:
        """Within the block, in which `batches` are learned from, they are in place; then gradients are handed over."""
        with contextlib.ExitStack() as stack:
            for subset in self._subsets:
                stack.enter_context(subset.narrowed([batch["input_ids"] for batch in batches]))
            for table, homes in self._tables.items():
                stack.enter_context(few_rows(table, homes, [batch["input_ids"] for batch in batches]))
            stack.enter_context(self._cast())
            yield

    @contextlib.contextmanager
    def _cast(self) -> Iterator[None]:
        with torch.no_grad():
            for entry in self._copies:
                entry.copy.copy_(entry.parameter)
                # A parameter can be frozen for a part of the steps.
                entry.copy.requires_grad_(entry.parameter.requires_grad)
        self._put(copies=True)
        try:
            yield
        finally:
            self._put(copies=False)
        for entry in self._copies:
            entry.hand_over()

    def _put(self, *, copies: bool) -> None:
        for entry in self._copies:
            for layer, name in entry.places:
                layer._parameters[name] = entry.copy if copies else entry.parameter


def _copies(module: nn.Module, tables: Sequence[nn.Embedding]) -> list[Copy]:
    places: dict[nn.Parameter, list[tuple[nn.Module, str]]] = {}
    others: set[nn.Parameter] = set()
    for part in module.modules():
        for name, parameter in part.named_parameters(recurse=False):
            if type(part) is nn.Linear:
                places.setdefault(parameter, []).append((part, name))
            elif not any(part is table for table in tables):
                others.add(parameter)
    return [
        Copy(
            parameter=parameter,
            copy=nn.Parameter(parameter.detach().to(torch.bfloat16), requires_grad=parameter.requires_grad),
            places=tuple(found),
            alone=parameter not in others,
            gradient=torch.empty_like(parameter),
        )
        for parameter, found in places.items()
    ]
