"""Ranges of activations over calibration data, for static quantisation."""

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import ModelProto, TensorProto, helper

from common.progress import progress
from students.onnx_folder import OnnxInfo
from students.onnx_int8 import Ranges
from students.runtime import OnnxModel

SAMPLES = 20_000
"""Values of each activation, in each batch, that are looked at."""
SHARES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5)
"""Shares of the range seen that are tried."""


def activation_ranges(
    model: ModelProto, info: OnnxInfo, names: Sequence[str], batches: Sequence[Mapping[str, np.ndarray]]
) -> Ranges:
    """Of each named tensor, the range whose 8-bit steps give the least squared error over the batches.

    Padded positions of tensors (batch, length, width) are left out. `model` is left with the tensors as outputs.
    """
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names)
    runtime = OnnxModel.of(model.SerializeToString(), info)
    seen: dict[str, list[np.ndarray]] = {name: [] for name in names}
    generator = np.random.default_rng(0)
    for batch in progress(batches, "calibrate", total=len(batches), unit="batch"):
        real = np.asarray(batch["attention_mask"], dtype=bool)
        for name, value in runtime.run(batch, outputs=names).items():
            values = value[real] if value.shape[:2] == real.shape else value
            seen[name].append(_sample(values.ravel(), generator))
    return {name: best_range(np.concatenate(values)) for name, values in seen.items()}


def best_range(values: np.ndarray) -> tuple[float, float]:
    """The part of the values' range, 0 in it, whose 256 even steps give the least squared error."""
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    candidates = [(low * below, high * above) for below in SHARES for above in SHARES]
    return min(candidates, key=lambda ends: _error(values, *ends))


def _error(values: np.ndarray, low: float, high: float) -> float:
    step = (high - low) / 255 or 1.0
    zero = round(-low / step)
    return float(np.square((np.clip(np.rint(values / step) + zero, 0, 255) - zero) * step - values).sum())


def _sample(values: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """So many of the values, the least and the greatest among them."""
    if len(values) <= SAMPLES:
        return values
    return np.concatenate([generator.choice(values, SAMPLES - 2, replace=False), [values.min(), values.max()]])
