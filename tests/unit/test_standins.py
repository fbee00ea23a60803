"""Lighter tensors in the place of parameters: the same gradients, in the same places."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from teacher.rows import RowSubset
from teacher.standins import StandIns


class Small(nn.Module):
    """Embedding, two linear layers that share a weight, LayerNorm, and an output tied to nothing."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rows = RowSubset(nn.Embedding(40, 8, padding_idx=0), torch.tensor([0, 3, 4, 7, 9, 20]))
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.norm, self.out = nn.LayerNorm(8), nn.Linear(8, 1)

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.out(self.norm(self.second(torch.tanh(self.first(self.rows(input_ids)))))).float().square().mean()


def _gradients(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}


def _learn(model: Small, batches: Sequence[Tensor], stand_ins: StandIns | None, *, bf16: bool) -> None:
    for input_ids in batches:
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            if stand_ins is None:
                model(input_ids).backward()
            else:
                with stand_ins.placed([{"input_ids": input_ids}]):
                    model(input_ids).backward()


@pytest.mark.parametrize("bf16", [False, True])
def test_gradients_are_those_of_the_parameters_themselves(bf16: bool) -> None:
    plain, light = Small(), Small()
    stand_ins = StandIns(light, bf16=bf16)
    steps = [
        [torch.tensor([[3, 3, 9], [7, 0, 0]])],
        [torch.tensor([[20, 4]])],
        [torch.tensor([[3, 9]]), torch.tensor([[9, 0]]), torch.tensor([[20, 3]])],
        [torch.tensor([[4, 7]])],
    ]
    for batches in steps:
        for model, using in ((plain, None), (light, stand_ins)):
            model.zero_grad(set_to_none=True)
            _learn(model, batches, using, bf16=bf16)
        wanted, found = _gradients(plain), _gradients(light)
        assert wanted.keys() == found.keys()
        for name, gradient in wanted.items():
            assert found[name].dtype == torch.float32
            # The shared weight's two halves are added in bf16 there.
            tolerance = 2e-2 * float(gradient.abs().max()) if bf16 and name == "first.weight" else 1e-7
            torch.testing.assert_close(found[name], gradient, rtol=0, atol=tolerance)


def test_halves_of_a_batch_share_the_rows_of_both() -> None:
    model = Small()
    halves = [{"input_ids": torch.tensor([[3, 4]])}, {"input_ids": torch.tensor([[20, 20]])}]
    with StandIns(model, bf16=False).placed(halves):
        assert model.rows.rows.shape == (3, 8)
        states = [model.rows(half["input_ids"]) for half in halves]
    for half, found in zip(halves, states, strict=True):
        assert torch.equal(found, model.rows(half["input_ids"]))


class Tied(nn.Module):
    """A decoder tied to the embeddings, as in masked language models."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.layer, self.decoder = nn.Embedding(40, 8, padding_idx=0), nn.Linear(8, 8), nn.Linear(8, 40)
        self.decoder.weight = self.table.weight

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.decoder(torch.tanh(self.layer(self.table(input_ids)))).float().square().mean()


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("looked_up", [False, True])
def test_a_tied_weight_gets_the_gradients_of_both_its_places(bf16: bool, looked_up: bool) -> None:
    plain, light = Tied(), Tied()
    stand_ins = StandIns(light, bf16=bf16, tables=[light.table] if looked_up else [])
    assert any(entry is light.table.weight for entry in stand_ins.parameters) == (bf16 and looked_up)
    for batches in ([[[3, 3, 9], [7, 0, 0]]], [[[39, 4]], [[4, 5]]], [[[5, 6]]]):
        for model in (plain, light):
            model.zero_grad(set_to_none=True)
        for ids in map(torch.tensor, batches):
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                plain(ids).backward()
                with stand_ins.placed([{"input_ids": ids}]):
                    light(ids).backward()
        wanted, found = _gradients(plain), _gradients(light)
        assert wanted.keys() == found.keys()
        for name, gradient in wanted.items():
            torch.testing.assert_close(found[name], gradient, rtol=0, atol=1e-6)
    assert light.decoder.weight is light.table.weight


def test_rows_alone_are_a_table_in_the_block() -> None:
    model = Tied()
    halves = [{"input_ids": torch.tensor([[3, 4, 0]])}, {"input_ids": torch.tensor([[20, 20]])}]
    table, wanted = model.table, [model.table(half["input_ids"]) for half in halves]
    with StandIns(model, bf16=True, tables=[table]).placed(halves):
        assert model.table is not table
        assert [parameter.shape for parameter in model.table.parameters()] == [(4, 8)]
        for half, states in zip(halves, wanted, strict=True):
            assert torch.equal(model.table(half["input_ids"]), states)
    assert model.table is table


def test_in_the_block_linear_layers_are_bf16_and_other_parameters_are_not() -> None:
    model = nn.ModuleDict({"table": nn.Embedding(5, 4), "decoder": nn.Linear(4, 5), "layer": nn.Linear(4, 4)})
    model["decoder"].weight = model["table"].weight
    before = dict(model.named_parameters())
    stand_ins = StandIns(model, bf16=True)
    with stand_ins.placed([]):
        kinds = {name: parameter.dtype for name, parameter in model.named_parameters()}
    linear = {"decoder.weight", "decoder.bias", "layer.weight", "layer.bias"}
    assert {name for name, kind in kinds.items() if kind == torch.bfloat16} == linear
    assert all(found is before[name] for name, found in model.named_parameters())
    # What the table has too is not stood in for there.
    assert set(stand_ins.parameters) == {before[name] for name in linear - {"decoder.weight"}}


def test_after_a_failure_the_parameters_are_back() -> None:
    model = Small()
    before = dict(model.named_parameters())
    with (
        pytest.raises(ValueError, match="stop"),
        torch.autocast("cpu", torch.bfloat16),
        StandIns(model, bf16=True).placed([{"input_ids": torch.tensor([[3]])}]),
    ):
        model(torch.tensor([[3]])).backward()
        raise ValueError("stop")
    assert all(found is before[name] for name, found in model.named_parameters())
    assert all(model.get_parameter(name).grad is None for name in ("first.weight", "out.bias", "rows.rows"))
