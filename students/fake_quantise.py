"""8-bit arithmetic simulated in fp32, with gradients, so that a model can learn to stand it.

Weights, looked-up rows of the table of pieces and what linear maps read are rounded to the grids that
students.onnx_int8 writes and ONNX Runtime computes with. Gradients pass straight through the rounding, and are 0 where
a value lies outside of its grid (Jacob et al. 2018, arXiv 1712.05877, section 3). What is learned so is another matter:
a teacher's answers, as in TernaryBERT (arXiv 2009.12812) and ZeroQuant (arXiv 2206.01861).
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from common.output_layer import output_path
from students.int8_grid import BLOCK, FACTORS

LEVELS = 255
"""Steps of the grid of activations, of 8 bits without a sign."""


def fake_activations(x: Tensor) -> Tensor:
    """x, of any shape, on an even grid of 256 values from the least (or 0) to the greatest (or 0) in it.

    As ONNX's DynamicQuantizeLinear: halves are rounded to even, 0 stays 0. The gradient is that of x itself.
    """
    with torch.no_grad():
        low, high = x.amin().clamp(max=0.0), x.amax().clamp(min=0.0)
        step = (high - low) / LEVELS
        step = torch.where(step == 0, torch.ones_like(step), step)
        zero = torch.round(-low / step).clamp(0, LEVELS)
        rounded = (torch.clamp(torch.round(x / step) + zero, 0, LEVELS) - zero) * step
    return rounded + (x - x.detach())


def least_error_shares(rows: Tensor, bits: int) -> Tensor:
    """The share of FACTORS (rows, 1) of each row's largest value at which a grid that ends there errs least."""
    errors = [
        (_on_grid(rows, row_scales(rows, torch.full_like(rows[:, :1], share), bits), bits) - rows).square().sum(1)
        for share in FACTORS
    ]
    return torch.tensor(FACTORS, device=rows.device)[torch.stack(errors).argmin(0)][:, None]


def row_scales(rows: Tensor, shares: Tensor, bits: int) -> Tensor:
    """Steps (rows, 1) of symmetric grids that end at these shares (rows, 1) of each row's largest value."""
    largest = rows.abs().amax(dim=1, keepdim=True)
    return shares * torch.where(largest == 0, torch.ones_like(largest), largest) / _top(bits)


def fake_rows(rows: Tensor, scales: Tensor, bits: int) -> Tensor:
    """rows (n, width) on symmetric grids of steps `scales` (n, 1); values outside of their grids have no gradient."""
    rounded = _on_grid(rows, scales, bits).detach()
    inside = torch.where(torch.round(rows / scales).abs() <= _top(bits), rows, rounded)
    return rounded + (inside - inside.detach())


def _top(bits: int) -> int:
    return int(2 ** (bits - 1)) - 1


def _on_grid(rows: Tensor, scales: Tensor, bits: int) -> Tensor:
    return torch.clamp(torch.round(rows / scales), -_top(bits), _top(bits)) * scales


def fake_table_rows(looked_up: Tensor, bits: int) -> Tensor:
    """Rows of a table (..., width) as it is stored: one scale a row, or with 4 bits one for every BLOCK values."""
    if bits == 32:
        return looked_up
    width = looked_up.shape[-1]
    # Two values of 4 bits share a byte, so an odd width has 8.
    bits = 8 if width % 2 else bits
    block = BLOCK if bits == 4 else width
    padded = functional.pad(looked_up.reshape(-1, width), (0, -width % block))
    rows = padded.reshape(-1, block)
    with torch.no_grad():
        scales = row_scales(rows, least_error_shares(rows, bits), bits)
    return fake_rows(rows, scales, bits).reshape(padded.shape)[:, :width].reshape(looked_up.shape)


class _Simulated(nn.Linear):
    """A linear map in simulated 8-bit integers; another class for the same object, so that no tensor has a new name."""

    bits: int
    shares: Tensor
    """Of each output's largest weight, where its grid ends: found once, so that training can be gone on with."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(fake_activations(x), self.on_grid(), self.bias)

    def on_grid(self) -> Tensor:
        return fake_rows(self.weight, row_scales(self.weight.detach(), self.shares, self.bits), self.bits)


@contextlib.contextmanager
def int8_simulated(
    model: PreTrainedModel, *, weight_bits: int = 8, table_bits: int = 8, settle: bool = False
) -> Iterator[None]:
    """Within the block `model` computes as if in 8-bit integers, and can be trained so, in fp32.

    All linear maps but the one that gives the outputs do, as in students.onnx_int8, and the table of pieces.

    Args:
        model: an encoder with a head; its tensors keep their names.
        weight_bits: 7 for processors whose 8-bit products overflow.
        table_bits: of the table of pieces: 4, 8, or 32 to leave it.
        settle: move the weights onto their grids at the end of the block, where nothing went wrong in it. An export to
            int8 then finds the very integers that were trained with.
    """
    layers = _linear_maps(model)
    for layer in layers:
        layer.__class__ = _Simulated
        layer.bits, layer.shares = weight_bits, least_error_shares(layer.weight.detach(), weight_bits)
    handle = model.get_input_embeddings().register_forward_hook(_rounding(table_bits))
    try:
        yield
        if settle:
            with torch.no_grad():
                for layer in layers:
                    layer.weight.copy_(layer.on_grid())
    finally:
        handle.remove()
        for layer in layers:
            del layer.bits, layer.shares
            layer.__class__ = nn.Linear


def _rounding(bits: int) -> Callable[[nn.Module, Any, Tensor], Tensor]:
    return lambda module, inputs, output: fake_table_rows(output, bits)


def _linear_maps(model: PreTrainedModel) -> list[Any]:
    """Those that are quantised: all but what gives the outputs."""
    last = output_path(model)
    return [
        module
        for name, module in model.named_modules()
        if type(module) is nn.Linear and (last is None or not f"{name}.".startswith(f"{last}."))
    ]
