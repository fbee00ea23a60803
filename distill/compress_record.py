"""The record of a chain: what it is made of, and when it need not be made again."""

import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from common.errors import UserError
from common.progress import say
from common.provenance import plain, provenance
from distill.cards import task_card
from distill.compress_config import CompressConfig
from distill.compress_measure import Measured
from distill.compress_steps import Work, work_for
from distill.runs import drop_if_unused
from distill.shipping import Shipment, cards_of, chain_of, ship
from reports.record import Record
from teacher.prepare import Prepared, prepare_split
from teacher.ready import CLAIM
from teacher.sources import load_for_task
from teacher.tasks.base import Task

RECORD = "record.json"


def measured_before(out: Path, *, speed: bool) -> Record | None:
    """The record of an earlier sitting, where it has all that is asked for and its artifacts are there still."""
    if not (out / RECORD).is_file():
        return None
    try:
        record = Record.load(out / RECORD)
    except UserError:
        return None
    rows = [row for chain in record.compression for row in chain.rows]
    kept = all(row.folder is not None and Path(row.folder).is_dir() for row in rows)
    if not rows or not kept or (speed and not any(row.latency for row in rows)):
        return None
    say(f"all of it was done and measured before: without {out / RECORD} it is measured again")
    return record


def made(config: CompressConfig, task: Task, shipment: Shipment, out: Path, precision: str, started: float) -> Record:
    """The chain beside its reference, each step made that is not in `out` already, and every row of it measured."""
    work = work_for(
        task,
        shipment.reference.folder,
        out,
        options=config.compress,
        max_length=config.data.max_length,
        precision=precision,
        checkpoint_every=config.checkpoint_every,
        seed=config.seed,
    )
    try:
        rows = ship(shipment, config.compress, work, out, speed=config.speed)
    except UserError:
        drop_if_unused(out, marker=CLAIM)
        raise
    return _record(config, shipment, rows, work, out, precision, started)


def _record(
    config: CompressConfig,
    shipment: Shipment,
    rows: Sequence[Measured],
    work: Work,
    out: Path,
    precision: str,
    started: float,
) -> Record:
    return Record(
        name=out.name,
        provenance=provenance(
            config=plain(dataclasses.asdict(config)),
            seeds=(config.seed,),
            threads=1,
            precision=precision,
            wall_seconds=time.monotonic() - started,
            argv=sys.argv,
        ),
        task=task_card(_evaluated(shipment, work)),
        models=cards_of(rows, work),
        compression=(chain_of(shipment, rows, config.compress),),
    )


def _evaluated(shipment: Shipment, work: Work) -> Prepared:
    """The task with the split that is reported on."""
    tokenizer = load_for_task(str(shipment.reference.folder), work.task, seed=0).tokenizer
    split = prepare_split(work.task, tokenizer, "evaluate", work.max_length)
    return Prepared(task=work.task, tokenizer=tokenizer, splits={"evaluate": split}, max_length=work.max_length)
