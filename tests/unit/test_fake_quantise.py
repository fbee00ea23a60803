"""Simulated 8-bit arithmetic: equal to what is written and to ONNX Runtime's, and something can be learned in it."""

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from transformers import PreTrainedModel

from students.export import export_onnx
from students.fake_quantise import (
    fake_activations,
    fake_rows,
    fake_table_rows,
    int8_simulated,
    least_error_shares,
    row_scales,
)
from students.int8_grid import BLOCK, quantise_columns, quantise_rows
from students.quantize import quantise
from students.runtime import OnnxModel, padded_batch

Make = Callable[..., PreTrainedModel]
sizes = st.tuples(st.integers(1, 9), st.integers(1, 70), st.integers(0, 99))


def draw(rows: int, width: int, seed: int) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))


def on_grid(weight: Tensor, bits: int) -> Tensor:
    return fake_rows(weight, row_scales(weight, least_error_shares(weight, bits), bits), bits)


@settings(max_examples=30, deadline=None)
@given(size=sizes, bits=st.sampled_from([3, 7, 8]))
def test_weights_are_those_that_are_written(size: tuple[int, int, int], bits: int) -> None:
    weight = draw(*size)
    values, scales = quantise_columns(weight.numpy().T, bits=bits)
    wanted = torch.from_numpy((values.astype(np.float32) * scales).T)
    assert torch.equal(on_grid(weight, bits), wanted)


@settings(max_examples=30, deadline=None)
@given(size=sizes, bits=st.sampled_from([4, 8]))
def test_looked_up_rows_are_those_of_the_table_that_is_written(size: tuple[int, int, int], bits: int) -> None:
    table = draw(*size)
    width = table.shape[1]
    own = 8 if width % 2 else bits
    block = BLOCK if own == 4 else 128
    values, scales = quantise_rows(table.numpy(), bits=own, block=block)
    steps = np.repeat(scales, block, axis=1)[:, :width]
    wanted = torch.from_numpy((values.astype(np.float32) - 2 ** (own - 1)) * steps)
    ids = torch.arange(len(table)).flip(0)[None]
    assert torch.equal(fake_table_rows(table[ids], bits), wanted[ids])
    assert fake_table_rows(table, 32) is table


@settings(max_examples=20, deadline=None)
@given(size=sizes, shift=st.sampled_from([-3.0, 0.0, 3.0]), halves=st.booleans())
def test_activations_are_rounded_as_onnx_runtime_rounds_them(
    size: tuple[int, int, int], shift: float, halves: bool
) -> None:
    x = draw(*size) + shift
    if halves:
        # Halves of a step: 255 steps of 1 from 0.
        x = torch.cat([torch.tensor([0.0, 255.0, 0.5, 1.5, 2.5]), x.abs().flatten()])[None]
    assert np.array_equal(fake_activations(x).numpy(), runtime_rounds(x.numpy()))


def runtime_rounds(x: np.ndarray) -> np.ndarray:
    """DynamicQuantizeLinear and DequantizeLinear of ONNX Runtime."""
    pytest.importorskip("onnxruntime")
    import onnx
    from onnx import TensorProto, helper

    from students.runtime import session

    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", "width"]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "rounding", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model)
    return session(model.SerializeToString()).run(["y"], {"x": x})[0]


def test_gradients_pass_straight_through_inside_the_grid() -> None:
    x = torch.tensor([-1.0, 0.3, 2.0], requires_grad=True)
    (fake_activations(x) * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 2.0, 3.0]
    weight = torch.tensor([[-1.0, 0.3, 0.5]], requires_grad=True)
    rounded = fake_rows(weight, torch.tensor([[0.1]]), 3)
    assert rounded.tolist() == [pytest.approx([-0.3, 0.3, 0.3])]
    (rounded * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [[0.0, 2.0, 0.0]], "beyond the end of the grid there is nothing to gain"


def test_nothing_but_zeros_is_left_as_it_is() -> None:
    assert torch.equal(fake_activations(torch.zeros(2, 3)), torch.zeros(2, 3))
    assert torch.equal(on_grid(torch.zeros(2, 3), 8), torch.zeros(2, 3))


def batch_of(rows: int = 8) -> dict[str, Tensor]:
    ids = torch.randint(5, 90, (rows, 9), generator=torch.Generator().manual_seed(3))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def logits(model: PreTrainedModel, **simulated: int) -> Tensor:
    with torch.no_grad():
        if not simulated:
            return model(**batch_of()).logits
        with int8_simulated(model, **simulated):
            return model(**batch_of()).logits


def test_a_model_is_the_same_after_the_block(tiny_bert: Make) -> None:
    model = tiny_bert(initializer_range=0.3)
    before, plain = copy.deepcopy(model.state_dict()), logits(model)
    assert not torch.equal(logits(model, weight_bits=8), plain)
    with int8_simulated(model):
        assert list(model.state_dict()) == list(before)
        assert sum(type(module) is nn.Linear for module in model.modules()) == 1, "what gives the outputs"
    assert torch.equal(logits(model), plain)
    with pytest.raises(KeyboardInterrupt), int8_simulated(model, settle=True):
        raise KeyboardInterrupt
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert {type(module) for module in model.modules() if isinstance(module, nn.Linear)} == {nn.Linear}


def test_the_simulation_tells_what_onnx_runtime_will_answer(tiny_bert: Make, tiny_tokenizer, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = tiny_bert(initializer_range=0.3)
    plain, simulated = logits(model), logits(model, weight_bits=8, table_bits=4)
    with int8_simulated(model, table_bits=4, settle=True):
        pass
    export_onnx(model, tiny_tokenizer, tmp_path / "onnx", max_length=16, pairs=False)
    quantise(tmp_path / "onnx", tmp_path / "int8", embedding_bits=4, reduce_range=False)
    batch = padded_batch([row.numpy() for row in batch_of()["input_ids"]])
    real = torch.from_numpy(OnnxModel(tmp_path / "int8").logits(batch))
    assert (real - simulated).square().mean() < 0.25 * (real - plain).square().mean()


def test_settled_weights_are_written_as_the_very_integers(tiny_bert: Make) -> None:
    model = tiny_bert(initializer_range=0.3)
    layer = model.bert.encoder.layer[0].intermediate.dense
    values, _ = quantise_columns(layer.weight.detach().numpy().T)
    with int8_simulated(model, settle=True):
        pass
    again, scales = quantise_columns(layer.weight.detach().numpy().T)
    assert np.array_equal(values, again)
    assert np.abs(again * scales - layer.weight.detach().numpy().T).max() < 1e-6


def test_a_model_learns_to_stand_coarse_weights(tiny_bert: Make) -> None:
    """Weights of 3 bits, which lose far more than 8 do, against the model's own logits in fp32."""
    model = tiny_bert(initializer_range=0.3)
    wanted = logits(model)
    before = (logits(model, weight_bits=3) - wanted).square().mean()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    with int8_simulated(model, weight_bits=3, settle=True):
        for _ in range(60):
            loss = (model(**batch_of()).logits - wanted).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    after = (logits(model, weight_bits=3) - wanted).square().mean()
    assert after < 0.2 * before
