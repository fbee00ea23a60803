"""The grids of integers that weights and tables are rounded to: symmetric, of the least squared error."""

import numpy as np

FACTORS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)
"""Shares of the largest value that are tried as the largest that is represented."""
BLOCK = 64
"""Values to a scale, with 4 bits."""


def quantise_columns(weight: np.ndarray, *, bits: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """int8 values (inputs, outputs) and scales (outputs,), symmetric: weight is about values * scales."""
    values, scales = _least_error(np.ascontiguousarray(weight.T), bits)
    return np.ascontiguousarray(values.T), scales


def quantise_rows(table: np.ndarray, *, bits: int, block: int) -> tuple[np.ndarray, np.ndarray]:
    """uint8 values (rows, width) and scales (rows, blocks); a block's table is about (values - 2^(bits-1)) * scale."""
    rows, width = table.shape
    blocks = -(-width // block)
    padded = np.zeros((rows, blocks * block), dtype=np.float32)
    padded[:, :width] = table
    values, scales = _least_error(padded.reshape(rows * blocks, block), bits)
    unsigned = (values.astype(np.int16) + 2 ** (bits - 1)).astype(np.uint8)
    return np.ascontiguousarray(unsigned.reshape(rows, -1)[:, :width]), scales.reshape(rows, blocks)


def _least_error(rows: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """int8 values and a scale for each row, with the share of FACTORS that has the least squared error."""
    top = 2 ** (bits - 1) - 1
    largest = np.abs(rows).max(axis=1)
    largest[largest == 0] = 1.0
    best, error = (largest / top).astype(np.float32), np.full(len(rows), np.inf)
    for factor in FACTORS:
        scales = (factor * largest / top).astype(np.float32)
        errors = np.square(_round(rows, scales, top) * scales[:, None] - rows).sum(axis=1)
        best, error = np.where(errors < error, scales, best), np.minimum(errors, error)
    return _round(rows, best, top).astype(np.int8), best


def _round(rows: np.ndarray, scales: np.ndarray, top: int) -> np.ndarray:
    return np.clip(np.rint(rows / scales[:, None]), -top, top)
