"""Recipes of equal wall time: their stages are timed here first, and their lengths follow from that."""

import dataclasses
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from common.files import write_json
from common.progress import say
from distill.job import Job, Shared
from distill.recipes import LABELS_ALONE
from distill.stages import Stage
from distill.workers import run_jobs

PACES = "paces.json"
"""Seconds a step by row and stage, as a run found them first: a resumed run has to take as many steps."""
WARM, TIMED = 10, 30
"""Steps before the timed ones, in which kernels are compiled for the shapes that occur; and those."""

Paces = Mapping[str, Mapping[str, float]]
"""Row to stage to seconds a step."""


def on_equal_time(jobs: Sequence[Job], shared: Shared, run: Path, workers: int) -> list[Job]:
    """The jobs with every stage as long as makes each row take as long as the first row of its student does.

    Args:
        jobs: of a run that compares recipes on equal steps; the first row of every student stays as it is.
        shared: of the run.
        run: its folder; the paces are kept there.
        workers: jobs trained side by side, as they are timed too.
    """
    # No more than the run trains side by side: fewer have more threads each.
    workers = min(workers, len(jobs))
    firsts: dict[str, Job] = {}
    rows: dict[str, Job] = {}
    for job in jobs:
        firsts.setdefault(job.student.name, job)
        rows.setdefault(job.row, job)
    paces = _paces(rows, shared, run, workers)
    return [_as_long_as(firsts[job.student.name], job, paces) for job in jobs]


def _as_long_as(first: Job, job: Job, paces: Paces) -> Job:
    if job.row == first.row:
        return job
    factor = _seconds(first, paces) / _seconds(job, paces)
    stages = tuple(dataclasses.replace(stage, steps=max(1, round(_steps(stage) * factor))) for stage in job.stages)
    if job.twin:
        words = LABELS_ALONE.format("long as each recipe")
        stages = tuple(dataclasses.replace(stage, description=words) for stage in stages)
    return dataclasses.replace(job, stages=stages)


def _seconds(job: Job, paces: Paces) -> float:
    return sum(_steps(stage) * paces[job.row][stage.name] for stage in job.stages)


def _steps(stage: Stage) -> int:
    assert stage.steps is not None, "recipes that are compared have steps, not epochs"
    return stage.steps


def _paces(rows: Mapping[str, Job], shared: Shared, run: Path, workers: int) -> Paces:
    """Found once, kept in the run's folder."""
    path = run / PACES
    if not path.is_file():
        say(f"timing {TIMED} steps of every stage of {len(rows)} models")
        write_json(path, {row: _pace(job, shared, workers) for row, job in rows.items()})
    return json.loads(path.read_text(encoding="utf-8"))


def _pace(job: Job, shared: Shared, workers: int) -> dict[str, float]:
    """Stage to seconds a step: of one job while as many others of its kind train beside it as in the run."""
    with tempfile.TemporaryDirectory() as folder:
        stages = tuple(
            dataclasses.replace(stage, name=name, steps=steps, select=False)
            for stage in job.stages
            for name, steps in ((f"{stage.name}-warm", WARM), (stage.name, TIMED))
        )
        copies = [
            dataclasses.replace(job, stages=stages, seed=seed, folder=Path(folder) / str(seed))
            for seed in range(workers)
        ]
        run_jobs(copies, shared, workers)
        outcomes = [copy.outcomes()[1::2] for copy in copies]
    return {
        stage.name: sum(outcome[place]["seconds"] for outcome in outcomes) / (TIMED * workers)
        for place, stage in enumerate(job.stages)
    }
