"""Which examples of large sets students ever draw: a teacher need not answer the others."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from distill.job import Job
from distill.stage_batches import split_of, task_batches
from distill.transfer_sets import with_sets
from teacher.prepare import Prepared

MOST = 0.9
"""A set of which this share is drawn is answered as a whole."""


def drawn(jobs: Sequence[Job], prepared: Prepared, folders: Mapping[str, Path]) -> dict[str, np.ndarray]:
    """Set in `folders` to the numbers of its examples, rising, that stages which learn a teacher's answers come to.

    The batches of a stage follow from its seed, and fast recipes end after some thousand steps, however many examples
    there are. Sets that are drawn almost whole are left out. `prepared`: of the students' tokenizer.
    """
    stages = {
        (stage.sets, tuple(stage.mix.items()), stage.batch_size, stage.steps, stage.epochs, job.seed): (stage, job.seed)
        for job in jobs
        for stage in job.stages
        if "soft" in stage.losses and not folders.keys().isdisjoint(stage.sets)
    }
    if not stages:
        return {}
    prepared = with_sets(prepared, folders)
    seen = {name: np.zeros(len(prepared.splits[name]), dtype=bool) for name in folders}
    for stage, seed in stages.values():
        batches = task_batches(stage, prepared, seed)
        steps = stage.length(len(batches.lengths))
        rows = np.unique(np.concatenate(list(itertools.islice(batches.from_batch(0), steps))))
        start = 0
        for name in stage.sets:
            size = len(prepared.splits[split_of(name)])
            if name in seen:
                seen[name][rows[(rows >= start) & (rows < start + size)] - start] = True
            start += size
    return {name: np.flatnonzero(own) for name, own in seen.items() if own.mean() < MOST}
