"""8-bit models: near the fp32 one, smaller, and with the parts left out that would lose too much."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from families import tiny_classifier
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BertTokenizerFast, PreTrainedModel

from common.errors import UserError
from students.calibrate import best_range
from students.export import export_onnx
from students.int8_grid import quantise_columns, quantise_rows
from students.onnx_graph import Graph
from students.onnx_int8 import parts
from students.quantize import quantise
from students.runtime import OnnxModel, padded_batch
from students.sensitivity import choose_parts

PARTS = ["embeddings", "layer 0 attention", "layer 0 feed-forward", "layer 1 attention", "layer 1 feed-forward", "head"]


@pytest.fixture(scope="module")
def folder(
    tiny_bert: Callable[..., PreTrainedModel],
    tiny_tokenizer: BertTokenizerFast,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    model = tiny_bert(vocab_size=1000, initializer_range=0.3)
    target = tmp_path_factory.mktemp("quantize") / "fp32"
    export_onnx(model, tiny_tokenizer, target, max_length=32)
    return target


def batches(count: int = 4) -> list[dict[str, np.ndarray]]:
    generator = np.random.default_rng(1)
    ragged = [[generator.integers(5, 900, generator.integers(3, 33)) for _ in range(8)] for _ in range(count)]
    return [padded_batch(rows) for rows in ragged]


def error(folder: Path, other: Path) -> float:
    """Root mean square of the difference of logits, as a share of the deviation of the fp32 ones."""
    ours, theirs = (np.concatenate([OnnxModel(path).logits(batch) for batch in batches()]) for path in (folder, other))
    return float(np.sqrt(np.square(ours - theirs).mean()) / ours.std())


@pytest.mark.parametrize(
    ("method", "bits", "bound"), [("dynamic", 8, 0.1), ("static", 8, 0.1), ("dynamic", 4, 0.25), ("dynamic", 32, 0.1)]
)
def test_an_int8_folder_answers_nearly_the_same(
    method: str, bits: int, bound: float, folder: Path, tmp_path: Path
) -> None:
    result = quantise(folder, tmp_path / "q", method=method, embedding_bits=bits, calibration=batches())
    assert 0 < error(folder, tmp_path / "q") < bound
    assert result.info.precision == f"int8 {method}"
    assert [result.info.fused[name] for name in ("QAttention", "MultiHeadAttention")] == [1, 1]
    assert result.model_bytes == (tmp_path / "q" / "model.onnx").stat().st_size
    assert (result.model_bytes < (folder / "model.onnx").stat().st_size / 2) == (bits != 32)


@pytest.mark.parametrize("kind", ["albert", "electra"])
def test_ranges_found_beforehand_hold_where_a_narrow_table_is_widened(
    kind: str, tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    """The map from the table's width has a sum with nothing but a bias, whose name the ranges go by."""
    export_onnx(tiny_classifier(kind, 1000), tiny_tokenizer, tmp_path / "fp32", max_length=32)
    for method in ("static", "dynamic"):
        quantise(tmp_path / "fp32", tmp_path / method, method=method, calibration=batches())
        assert 0 < error(tmp_path / "fp32", tmp_path / method) < 0.2


def test_every_part_is_found_and_the_last_map_stays(folder: Path) -> None:
    found = parts(Graph(onnx.load(folder / "model.onnx")))
    assert list(found) == PARTS
    assert [len(nodes) for nodes in found.values()] == [2, 2, 2, 4, 2, 1]
    assert all("logits" not in node.output for nodes in found.values() for node in nodes)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 70), st.integers(1, 40), st.sampled_from([7, 8]), st.integers(0, 9))
def test_columns_are_within_half_a_step(inputs: int, outputs: int, bits: int, seed: int) -> None:
    weight = np.random.default_rng(seed).standard_normal((inputs, outputs)).astype(np.float32)
    values, scales = quantise_columns(weight, bits=bits)
    top = 2 ** (bits - 1) - 1
    assert values.dtype == np.int8
    assert np.abs(values.astype(int)).max() <= top
    plain = np.abs(weight).max(axis=0) / top
    error = np.square(values * scales - weight).sum(axis=0)
    assert (error <= np.square(np.rint(weight / plain) * plain - weight).sum(axis=0) + 1e-6).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 20), st.integers(1, 150), st.sampled_from([4, 8]), st.sampled_from([16, 64, 256]))
def test_rows_come_back_within_a_step_of_their_block(rows: int, width: int, bits: int, block: int) -> None:
    table = np.random.default_rng(width).standard_normal((rows, width)).astype(np.float32)
    values, scales = quantise_rows(table, bits=bits, block=block)
    assert values.shape == table.shape
    assert values.max() < 2**bits
    steps = np.repeat(scales, block, axis=1)[:, :width]
    back = (values.astype(np.float32) - 2 ** (bits - 1)) * steps
    # What is clipped is at most 30 % beyond the greatest value that is represented.
    assert (np.abs(back - table) <= steps / 2 + 0.43 * steps * (2 ** (bits - 1) - 1)).all()
    assert np.square(back - table).mean() <= np.square(steps).mean() / 4


def test_a_range_leaves_out_what_is_rare_and_keeps_what_is_not() -> None:
    generator = np.random.default_rng(0)
    low, high = best_range(generator.uniform(-1, 3, 10_000))
    assert low == pytest.approx(-1, abs=0.01)
    assert high == pytest.approx(3, abs=0.01)
    outlier = np.concatenate([generator.standard_normal(20_000), [6.0]])
    assert best_range(outlier)[1] < 6.0
    assert best_range(np.zeros(5)) == (0.0, 0.0)


def test_the_most_sensitive_parts_are_left_out_until_the_drop_fits() -> None:
    costs = {"a": 0.01, "b": 0.10, "c": 0.05, "d": 0.0}
    calls: list[frozenset[str]] = []

    def score(excluded: object) -> float:
        chosen = frozenset(excluded)  # type: ignore[call-overload]
        calls.append(chosen)
        return 0.9 - sum(cost for name, cost in costs.items() if name not in chosen)

    choice = choose_parts(list(costs), score, max_drop=0.02)
    assert choice.excluded == ("b", "c")
    assert choice.score == pytest.approx(0.89)
    assert choice.before == pytest.approx(0.9)
    assert choice.drops == pytest.approx(costs)
    assert choice.within
    lower = choose_parts(list(costs), score, max_drop=0.02, before=0.5)
    assert (lower.excluded, lower.before) == ((), 0.5), "the drop is counted from what is given"
    above = choose_parts(list(costs), score, max_drop=0.02, before=1.0)
    assert (len(above.excluded), above.within) == (4, False)
    calls.clear()
    assert choose_parts(list(costs), score, max_drop=0.2).excluded == ()
    assert len(calls) == 2


def test_where_no_part_may_lose_anything_all_stay() -> None:
    choice = choose_parts(["a", "b"], lambda excluded: 1.0 if len(list(excluded)) == 2 else 0.0, max_drop=0.5)
    assert choice.excluded == ("a", "b")
    assert choice.score == 1.0


def test_excluded_parts_are_in_fp32_and_named(folder: Path, tmp_path: Path) -> None:
    truth = np.concatenate([OnnxModel(folder).logits(batch) for batch in batches()])

    def score(model: OnnxModel) -> float:
        ours = np.concatenate([model.logits(batch) for batch in batches()])
        return -float(np.abs(ours - truth).max())

    loose = quantise(folder, tmp_path / "loose", score=score, max_drop=10.0)
    assert loose.excluded == ()
    assert loose.drops == {}
    assert loose.after < loose.before == 0
    budget = -loose.after / 2
    tight = quantise(folder, tmp_path / "tight", score=score, max_drop=budget)
    assert tight.within
    assert -tight.after <= budget
    assert set(tight.drops) == set(PARTS)
    assert 0 < len(tight.excluded) < len(PARTS)
    assert score(OnnxModel(tmp_path / "tight")) == tight.after
    assert tight.info.quantised["excluded"] == list(tight.excluded)


def test_what_cannot_be_quantised_is_said_before_anything_is_written(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'dynamic'"):
        quantise(folder, tmp_path / "q", method="dinamic")
    with pytest.raises(UserError, match=r"embedding_bits 5.*needs calibration data.*max_drop needs a score"):
        quantise(folder, tmp_path / "q", method="static", embedding_bits=5, max_drop=0.1)
    assert not (tmp_path / "q").exists()
    quantise(folder, tmp_path / "q")
    with pytest.raises(UserError, match="int8 dynamic already"):
        quantise(tmp_path / "q", tmp_path / "again")
    with pytest.raises(UserError, match="holds a model already"):
        quantise(folder, tmp_path / "q")


def test_weights_have_seven_bits_where_eight_overflow(folder: Path, tmp_path: Path) -> None:
    result = quantise(folder, tmp_path / "q", reduce_range=True)
    assert result.weight_bits == 7
    weights = [tensor for tensor in onnx.load(tmp_path / "q" / "model.onnx").graph.initializer if "int8" in tensor.name]
    assert len(weights) == 12
    largest = [np.abs(onnx.numpy_helper.to_array(tensor).astype(int)).max() for tensor in weights]
    assert sorted(largest) == [*[63] * 11, 127]
