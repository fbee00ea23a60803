"""Two halves of a batch in two threads: the same step as one, the same bits every time."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from common.errors import UserError
from common.hardware import bf16_pays
from teacher.batches import Batches
from teacher.dropout import KeyedDropout, drawing, drop, keyed_dropout
from teacher.loop import train
from teacher.loop_config import LoopConfig
from teacher.objective import Objective
from teacher.parts import cut


class Net(Objective):
    def __init__(self, share: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.Sequential(nn.Linear(6, 32), nn.Dropout(share), nn.Tanh(), nn.Linear(32, 6))
        self.weights = {"square": 1.0}
        self.sizes: list[int] = []

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        self.sizes.append(len(batch["x"]))
        return {"square": (self.layers(batch["x"]) - batch["x"].flip(-1)).square().mean()}


def _batches(rows: int = 70, bad: int | None = None) -> Batches:
    x = torch.randn(rows, 6, generator=torch.Generator().manual_seed(1))
    if bad is not None:
        x[bad] = torch.nan
    return Batches(
        lengths=np.ones(rows, dtype=np.int64), batch_size=20, seed=2, collate=lambda rows, step: {"x": x[list(rows)]}
    )


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def _trained(folder: Path, share: float, **options: int) -> Net:
    net = Net(share)
    settings = LoopConfig(learning_rate=1e-2, epochs=3, precision="fp32", seed=5, checkpoint_every=4, **options)
    train(net, _batches(), settings, folder, label="x")
    return net


def _equal(one: nn.Module, other: nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_two_lanes_take_the_step_of_one(tmp_path: Path, two_threads: None) -> None:
    two = _trained(tmp_path / "two", 0.0)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    one = _trained(tmp_path / "one", 0.0)
    # 70 rows are three batches of 20 and one of 10.
    assert set(one.sizes) == {20, 10}
    assert set(two.sizes) == {10, 5}
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_two_lanes_with_dropout_and_accumulation_give_the_same_bits(tmp_path: Path, two_threads: None) -> None:
    first = _trained(tmp_path / "a", 0.4, accumulation=2)
    torch.manual_seed(77)
    assert _equal(first, _trained(tmp_path / "b", 0.4, accumulation=2))
    assert not _equal(first, _trained(tmp_path / "c", 0.3, accumulation=2))


@pytest.mark.skipif(not bf16_pays(), reason="bf16 is emulated here, and refused")
def test_weights_shared_by_layers_get_the_same_bits_in_bf16(tmp_path: Path, two_threads: None) -> None:
    class Shared(Net):
        def __init__(self) -> None:
            super().__init__()
            self.block = nn.Linear(256, 256)

        def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
            states = batch["x"].repeat(16, 43)[:, :256]
            for _ in range(12):
                states = torch.tanh(states + self.block(states))
            return {"square": states.float().square().mean()}

    settings = LoopConfig(learning_rate=1e-2, epochs=6, precision="bf16", seed=5)
    nets = [Shared() for _ in range(4)]
    for number, net in enumerate(nets):
        train(net, _batches(), settings, tmp_path / str(number), label="x")
    assert all(_equal(nets[0], net) for net in nets[1:])


def test_a_killed_run_with_two_lanes_goes_on_to_the_same_weights(tmp_path: Path, two_threads: None) -> None:
    whole = _trained(tmp_path / "whole", 0.4)
    cut_short = Net(0.4)
    calls = 0

    def failing(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        nonlocal calls
        calls += 1
        if calls > 13:
            raise KeyboardInterrupt
        return Net.forward(cut_short, batch)

    cut_short.forward = failing
    settings = LoopConfig(learning_rate=1e-2, epochs=3, precision="fp32", seed=5, checkpoint_every=4)
    with pytest.raises(KeyboardInterrupt):
        train(cut_short, _batches(), settings, tmp_path / "cut", label="x")
    assert list((tmp_path / "cut").glob("step-*"))
    assert _equal(whole, _trained(tmp_path / "cut", 0.4))


def test_a_bad_number_in_one_lane_stops_the_run(tmp_path: Path, two_threads: None) -> None:
    settings = LoopConfig(learning_rate=1e-2, epochs=1, precision="fp32")
    with pytest.raises(UserError, match="'square' is nan at step"):
        train(Net(), _batches(bad=30), settings, tmp_path, label="x")


def test_every_example_of_a_batch_is_in_one_part_and_the_shares_sum_to_one() -> None:
    for size in (1, 2, 7, 32):
        parts = cut(np.arange(size), 9, 2)
        assert sorted(np.concatenate([part.indices for part in parts]).tolist()) == list(range(size))
        assert sum(part.share for part in parts) == pytest.approx(1.0)
        assert len({part.number for part in parts}) == len(parts)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_drop_keeps_the_mean_and_passes_gradients_where_it_kept(dtype: torch.dtype) -> None:
    states = torch.ones(1000, 501, dtype=dtype, requires_grad=True)
    with drawing(1, 2):
        first = drop(states, 0.1)
        second = drop(states, 0.1)
    with drawing(1, 2):
        again = drop(states, 0.1)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    dropped = float((first == 0).float().mean())
    # Four standard deviations of a mean of 501,000 draws.
    assert dropped == pytest.approx(0.1, abs=4 * (0.09 / 501_000) ** 0.5)
    assert float(first.float().mean().detach()) == pytest.approx(1.0, abs=0.005)
    # Neighbours in a row, a column, and from one call to the next are independent.
    out = (first == 0).float()
    for left, right in ((out[:, 1:], out[:, :-1]), (out[1:], out[:-1]), (out, (second == 0).float())):
        assert float((left * right).mean()) == pytest.approx(0.01, abs=0.001)
    (gradient,) = torch.autograd.grad(first.sum(), states)
    assert torch.equal(gradient, first.detach())


def test_keyed_dropout_is_put_in_and_taken_out(tmp_path: Path) -> None:
    net = Net(0.5)
    inner = net.layers[1]
    x = torch.ones(50, 6)
    with keyed_dropout(net):
        assert isinstance(net.layers[1], KeyedDropout)
        with drawing(3):
            one = net.layers(x)
        torch.manual_seed(0)
        with drawing(3):
            assert torch.equal(one, net.layers(x))
        net.eval()
        with drawing(3):
            assert torch.equal(net.layers(x), net.layers(x))
    assert net.layers[1] is inner
    assert not inner.training
