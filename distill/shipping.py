"""One model through its chain: all steps, the reference on the same runtimes, and every row measured."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from common.errors import UserError
from common.hardware import bf16_pays
from common.progress import say
from distill.compress_chain import Artifact, Made, run_chain
from distill.compress_measure import Entry, Measured, entries_of, measured
from distill.compress_options import CompressOptions
from distill.compress_steps import Work, reference_steps, steps_for
from distill.evaluate import quality
from reports.record import Compression, ModelCard, Size, Speed

UNCHANGED = "unchanged"
"""What the model itself is called where it is its own reference."""


@dataclass(frozen=True, kw_only=True)
class Shipment:
    """What is compressed, and what it is compared with."""

    name: str
    """The model's, in the tables."""
    start: Artifact
    reference: Artifact
    """The teacher; the model itself where there is none."""
    reference_name: str


def ship(
    shipment: Shipment, options: CompressOptions, work: Work, folder: Path, *, speed: bool, seconds: float = 60.0
) -> list[Measured]:
    """Every row of the chain's table, the reference first. Artifacts lie under `folder`; finished steps are kept.

    `seconds` are those of measuring latency, where `speed` is asked for.
    """
    alone = shipment.start.folder.resolve() == shipment.reference.folder.resolve()
    made = run_chain(shipment.start, steps_for(options, work), folder)
    baselines, reference = _baselines(shipment, options, work, folder / "reference")
    precisions = ("bf16",) if bf16_pays() else ()
    entries = [Entry(step=shipment.reference_name, artifact=reference, role="reference")]
    entries += [
        Entry(step=shipment.reference_name, artifact=shipment.reference, precision=precision, role="baseline")
        for precision in precisions
    ]
    entries += [
        Entry(
            step=f"{shipment.reference_name}, {entry.step}",
            artifact=entry.artifact,
            precision=entry.precision,
            role="baseline",
            seconds=entry.seconds,
        )
        for entry in entries_of(baselines)
    ]
    if not alone:
        entries.append(Entry(step=shipment.name, artifact=shipment.start))
    entries += entries_of(made, precisions=(*precisions, *(("int8",) if options.int8 else ())))
    return measured(entries, work.task, max_length=work.max_length, speed=speed, seconds=seconds)


def _baselines(shipment: Shipment, options: CompressOptions, work: Work, folder: Path) -> tuple[list[Made], Artifact]:
    """The reference on the runtimes of the chain's end, and itself: with a note where it cannot run on them."""
    try:
        return run_chain(shipment.reference, reference_steps(options, work), folder), shipment.reference
    except UserError as error:
        # The model's own steps are done by now, and its table says as much without these rows.
        note = f"not measured on ONNX Runtime: {error}"
        say(f"{shipment.reference_name}: {note}")
        return [], replace(shipment.reference, notes=(*shipment.reference.notes, note))


def chain_of(shipment: Shipment, rows: Sequence[Measured], options: CompressOptions) -> Compression:
    """The chain as a record holds it."""
    return Compression(model=shipment.name, rows=tuple(entry.row for entry in rows), max_drop=options.max_drop)


def cards_of(rows: Sequence[Measured], work: Work) -> tuple[ModelCard, ...]:
    """A card for the reference and one for each step, for a record that is about one chain alone."""
    first = rows[0]
    shown = [entry for entry in rows if entry.row.role != "baseline" and entry.shown]
    return tuple(
        ModelCard(
            name=entry.row.step,
            role="teacher" if entry is first else "student",
            quality=quality(
                work.task,
                {0: entry.predictions},
                first.references,
                teacher=None if entry is first else first.predictions,
            ),
            size=Size(
                parameters=entry.counts.parameters,
                embedding_parameters=entry.counts.embedding_parameters,
                bytes_on_disk=entry.row.bytes_on_disk,
                flops=entry.counts.flops,
            ),
            speed=Speed(latency=entry.row.latency, peak_memory_bytes=None),
            folder=entry.row.folder,
            notes=entry.row.notes,
        )
        for entry in shown
    )
