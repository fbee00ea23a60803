"""What a model costs: parameters, bytes, operations, milliseconds, memory. No column is inferred from another."""

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel

from common.errors import UserError
from common.families import max_length
from common.hardware import usable_cores
from common.progress import Progress
from distill.flops import evaluation_mode, flops, random_batch
from distill.memory import peak_memory
from reports.record import Latency, Size, Speed

Key = TypeVar("Key")

WARM_UP_SECONDS = 0.1
FEWEST_REPEATS, MOST_REPEATS = 3, 50


@dataclass(frozen=True, kw_only=True)
class _Cell:
    """One cell of the speed table."""

    batch: int
    length: int
    threads: int

    @property
    def share(self) -> float:
        """Its part of the time. The square root of the work gives every cell's median about the same certainty."""
        return math.sqrt(self.batch * self.length) / self.threads


def count_parameters(module: nn.Module) -> int:
    """Parameters, those in several places counted once."""
    return sum(parameter.numel() for parameter in module.parameters())


def count_embedding_parameters(module: nn.Module) -> int:
    """Parameters in look-up tables (pieces, positions, segments), those in several places counted once."""
    tables = {id(part.weight): part.weight for part in module.modules() if isinstance(part, nn.Embedding)}
    return sum(table.numel() for table in tables.values())


def weight_bytes(folder: Path) -> int:
    """Bytes of the weight files (safetensors) in a model folder.

    Raises:
        UserError: there are none.
    """
    files = list(folder.glob("*.safetensors"))
    if not files:
        raise UserError(f"{folder} has no .safetensors file: a model folder was expected")
    return sum(file.stat().st_size for file in files)


def measure_size(model: PreTrainedModel, folder: Path) -> Size:
    """Size of `model`, which was saved in `folder`; FLOPs at 128 tokens, or at its last position where that is less."""
    return Size(
        parameters=count_parameters(model),
        embedding_parameters=count_embedding_parameters(model),
        bytes_on_disk=weight_bytes(folder),
        flops=flops(model, length=min(128, max_length(model.config))),
    )


def measure_speed(
    models: Mapping[str, PreTrainedModel], folders: Mapping[str, Path], *, seconds: float = 30.0
) -> dict[str, Speed]:
    """Latency of all models, interleaved, and the peak memory of each in a process of its own."""
    latency = measure_latency(models, seconds=seconds)
    return {
        name: Speed(
            latency=latency[name], peak_memory_bytes=peak_memory(folders[name], threads=torch.get_num_threads())
        )
        for name in models
    }


def measure_latency(
    models: Mapping[str, PreTrainedModel],
    *,
    batches: Sequence[int] = (1, 32),
    lengths: Sequence[int] = (16, 128),
    threads: Sequence[int] | None = None,
    precision: str = "fp32",
    seconds: float = 30.0,
    shown: bool = True,
) -> dict[str, tuple[Latency, ...]]:
    """Milliseconds a forward pass on the CPU, of each model in turn (A B A B ...), so that disturbances meet all alike.

    Args:
        models: name to model, on the CPU. Their mode and the number of threads are restored.
        batches: sequences a batch.
        lengths: tokens a sequence, none of them padding; those beyond the positions of one of the models are left out.
        threads: 1 and all usable cores if None.
        precision: "fp32", or "bf16" for autocast.
        seconds: of the whole. A cell gets at least 3 repeats, so slow models may take longer, and at most 50.
        shown: with progress.

    Raises:
        UserError: unknown precision, or a model that is not on the CPU.
    """
    if precision not in ("fp32", "bf16"):
        raise UserError(f"precision {precision!r} is unknown: fp32 or bf16")
    for name, model in models.items():
        if model.device.type != "cpu":
            raise UserError(
                f"latency is measured on the CPU, and {name!r} is on {model.device}: move it with .cpu() first"
            )
    longest = min((max_length(model.config) for model in models.values()), default=0)
    counts = sorted({1, usable_cores()} if threads is None else set(threads))
    cells = [
        _Cell(batch=batch, length=length, threads=count)
        for count, batch, length in itertools.product(counts, batches, lengths)
        if length <= longest
    ]
    results: dict[str, list[Latency]] = {name: [] for name in models}
    before = torch.get_num_threads()
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16")
    try:
        with evaluation_mode(models.values()), torch.inference_mode(), autocast:
            _time_cells(lambda cell: _calls(models, cell), cells, precision, seconds, results, shown=shown)
    finally:
        torch.set_num_threads(before)
    return {name: tuple(rows) for name, rows in results.items()}


Bind = Callable[[int, int], Callable[[], object]]
"""From batch and length to a forward pass, as a function without arguments."""


def time_calls(
    calls: Mapping[Key, Bind], *, cells: Sequence[tuple[int, int]], seconds: float = 30.0
) -> dict[Key, tuple[Latency, ...]]:
    """Milliseconds of anything that runs on one thread, each in turn, as `measure_latency` does for models in torch.

    Args:
        calls: by name; the function is made anew for every cell.
        cells: batch and length each.
        seconds: of the whole.
    """
    results: dict[Key, list[Latency]] = {name: [] for name in calls}
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        _time_cells(
            lambda cell: {name: call(cell.batch, cell.length) for name, call in calls.items()},
            [_Cell(batch=batch, length=length, threads=1) for batch, length in cells],
            "fp32",
            seconds,
            results,
        )
    finally:
        torch.set_num_threads(before)
    return {name: tuple(rows) for name, rows in results.items()}


def _time_cells(
    calls: Callable[[_Cell], Mapping[Key, Callable[[], object]]],
    cells: Sequence[_Cell],
    precision: str,
    seconds: float,
    results: Mapping[Key, list[Latency]],
    *,
    shown: bool = True,
) -> None:
    """Append each cell's row of each call to `results`. Time that one cell does not use goes to those after it."""
    end = time.perf_counter() + seconds
    with Progress("measure latency", total=len(cells), unit="cell") if shown else contextlib.nullcontext() as bar:
        for index, cell in enumerate(cells):
            torch.set_num_threads(cell.threads)
            part = cell.share / sum(later.share for later in cells[index:])
            times = _interleave(calls(cell), until=part * (end - time.perf_counter()))
            for name, row in times.items():
                results[name].append(_summary(row, cell, precision))
            if bar is not None:
                bar.advance()


def _calls(models: Mapping[str, PreTrainedModel], cell: _Cell) -> dict[str, Callable[[], object]]:
    """A forward pass of each model, as a function without arguments."""

    def call(model: PreTrainedModel) -> Callable[[], object]:
        inputs = random_batch(model, batch=cell.batch, length=cell.length)
        return lambda: model(**inputs)

    return {name: call(model) for name, model in models.items()}


def _interleave(calls: Mapping[Key, Callable[[], object]], *, until: float) -> dict[Key, list[float]]:
    """Seconds of each call, in rounds over all of them that together take about `until` seconds, after a warm-up."""
    start = time.perf_counter()
    round_seconds = sum(_warm_up(call) for call in calls.values())
    left = until - (time.perf_counter() - start)
    rounds = min(MOST_REPEATS, max(FEWEST_REPEATS, int(left / round_seconds))) if calls else 0
    times: dict[Key, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(_timed(call))
    return times


def _warm_up(call: Callable[[], object]) -> float:
    """Call until WARM_UP_SECONDS have passed; seconds of the last call. The first calls allocate and choose kernels."""
    start = time.perf_counter()
    seconds = _timed(call)
    while time.perf_counter() - start < WARM_UP_SECONDS:
        seconds = _timed(call)
    return seconds


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _summary(seconds: Sequence[float], cell: _Cell, precision: str) -> Latency:
    p50, p95 = np.percentile(seconds, [50, 95]) * 1000
    return Latency(
        runtime=f"torch {torch.__version__.partition('+')[0]}",
        precision=precision,
        batch=cell.batch,
        length=cell.length,
        threads=cell.threads,
        p50_ms=float(p50),
        p95_ms=float(p95),
        repeats=len(seconds),
    )
