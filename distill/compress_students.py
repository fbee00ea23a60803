"""The students of a run, each through its chain: one command gives a model to ship."""

import traceback
from collections.abc import Sequence
from pathlib import Path

from common.errors import UserError
from common.progress import say
from common.words import first_line
from distill.compress_chain import Artifact
from distill.compress_steps import work_for
from distill.config import RunConfig
from distill.job import Job
from distill.shipping import UNCHANGED, Shipment, chain_of, ship
from reports.record import Compression
from teacher.loop_config import resolve_precision
from teacher.ready import Teacher


def compressed_students(
    config: RunConfig, run: Path, teacher: Teacher, jobs: Sequence[Job], *, outputs_only: bool
) -> tuple[tuple[Compression, ...], tuple[str, ...]]:
    """The chain of every student (its first seed), and a sentence for each that could not be made.

    Finished steps are kept under `run`/shipped. A teacher that is only its outputs is no first row: the student itself
    is then. Students that are trained already must not be lost to a target that cannot be reached, nor to a fault of
    ours, whose traceback is shown.
    """
    chains, failures = [], []
    for job in jobs if config.compress.anything else ():
        if job.twin or job.seed != 0:
            continue
        try:
            chains.append(_compressed(config, run, teacher, job, outputs_only=outputs_only))
        except UserError as error:
            failures.append(f"{job.row} was not compressed: {error}")
            say(failures[-1])
        except Exception as error:  # whatever it is, the record of what was trained is written after this
            traceback.print_exc()
            failures.append(f"{job.row} was not compressed, by a fault of this program: {first_line(error)}")
            say(failures[-1])
    return tuple(chains), tuple(failures)


def _compressed(config: RunConfig, run: Path, teacher: Teacher, job: Job, *, outputs_only: bool) -> Compression:
    folder = run / "shipped" / job.folder.parent.name
    reference = job.model_folder if outputs_only else teacher.folder
    say(f"compressing {job.row}")
    work = work_for(
        teacher.prepared.task,
        reference,
        folder,
        options=config.compress,
        max_length=config.data.max_length,
        precision=resolve_precision(config.precision),
        checkpoint_every=config.checkpoint_every,
        seed=job.seed,
    )
    shipment = Shipment(
        name=job.row,
        start=Artifact(folder=job.model_folder),
        reference=Artifact(folder=reference),
        reference_name=UNCHANGED if outputs_only else "teacher",
    )
    rows = ship(shipment, config.compress, work, folder, speed=config.speed)
    return chain_of(shipment, rows, config.compress)
