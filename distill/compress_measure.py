"""The rows of the table: quality, size and speed of every artifact on the runtime that it ships on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from common.progress import say
from distill.compress_chain import Artifact, Made
from distill.measure import time_calls
from distill.runtimes import RUNTIMES, Bound, Counts, Runtime, answered, random_inputs
from reports.record import CompressionRow, Latency
from reports.statistics import retained
from teacher.tasks.base import Task

CELLS = ((1, 16), (1, 128), (32, 128))
"""Batch and length of the latency columns, on one thread."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One row before it is measured: an artifact, and a runtime for it."""

    step: str
    artifact: Artifact
    precision: str = "fp32"
    role: str = "chain"
    """ "reference" (the first row), "baseline" (the reference on another runtime) or "chain". """
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A row, and the answers that its quality comes from."""

    row: CompressionRow
    predictions: np.ndarray
    references: np.ndarray
    """What is right."""
    shown: bool
    """It is its step's own row, and not the same model in torch once more."""
    counts: Counts


def entries_of(made: Sequence[Made], *, role: str = "chain", precisions: Sequence[str] = ()) -> list[Entry]:
    """A row a step, and one more for the last model in torch in each of these precisions."""
    found = [Entry(step=step.title, artifact=step.artifact, role=role, seconds=step.seconds) for step in made]
    places = [place for place, step in enumerate(made) if step.artifact.kind == "torch"]
    if places:
        last = places[-1]
        own = replace(found[last].artifact, notes=())
        also = [replace(found[last], artifact=own, precision=precision, seconds=None) for precision in precisions]
        found[last + 1 : last + 1] = also
    return found


def measured(entries: Sequence[Entry], task: Task, *, max_length: int, speed: bool, seconds: float) -> list[Measured]:
    """All rows, in order; what has speed is timed in turns."""
    runtimes: list[Runtime] = []
    found: list[Measured] = []
    counts: dict[str, Counts] = {}
    for entry in entries:
        runtime, own = RUNTIMES[entry.artifact.kind](entry.artifact, task, entry.precision)
        family = "reference" if entry.role != "chain" else "chain"
        counts[family] = own or counts.get(family) or counts["reference"]
        runtimes.append(runtime)
        found.append(_quality(entry, runtime, counts[family], task, max_length, found))
    times = _latencies(runtimes, seconds) if speed else {}
    return [replace(entry, row=replace(entry.row, latency=times.get(place, ()))) for place, entry in enumerate(found)]


def _quality(
    entry: Entry, runtime: Runtime, counts: Counts, task: Task, max_length: int, before: Sequence[Measured]
) -> Measured:
    label = f"{entry.step}, {runtime.name} {runtime.precision}"
    encoded, predictions = answered(runtime, task, "evaluate", max_length, label=label)
    value = task.metrics(predictions, encoded.references)[task.data.metric]
    shown = entry.artifact.kind != "torch" or entry.precision == "fp32"
    row = CompressionRow(
        step=entry.step,
        role=entry.role,
        runtime=runtime.name,
        precision=runtime.precision,
        value=value,
        retained=retained(value, before[0].row.value) if before else None,
        parameters=counts.parameters,
        bytes_on_disk=folder_bytes(entry.artifact.folder),
        seconds=entry.seconds,
        folder=str(entry.artifact.folder),
        notes=entry.artifact.notes,
    )
    return Measured(row=row, predictions=predictions, references=encoded.references, counts=counts, shown=shown)


def folder_bytes(folder: Path) -> int:
    """Bytes of all files in a folder: weights, configuration, tokenizer, card."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def bound(runtime: Runtime, batch: int, length: int) -> Bound:
    """A forward pass over random pieces."""
    return runtime.bind(random_inputs(runtime, batch=batch, length=length))


def _latencies(runtimes: Sequence[Runtime], seconds: float) -> Mapping[int, tuple[Latency, ...]]:
    """By place: every runtime in turn, on one thread."""
    say("measuring latency")
    longest = min(runtime.positions for runtime in runtimes)
    found = time_calls(
        {place: partial(bound, runtime) for place, runtime in enumerate(runtimes)},
        cells=[cell for cell in CELLS if cell[1] <= longest],
        seconds=seconds,
    )
    return {
        place: tuple(replace(cell, runtime=runtime.name, precision=runtime.precision) for cell in found[place])
        for place, runtime in enumerate(runtimes)
    }
