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
    there are. Sets that are drawn almost whole, or by no such stage, are left out. `prepared`: of the students'
    tokenizer.
    """
    asking = [
        (stage, job.seed)
        for job in jobs
        for stage in job.stages
        if "soft" in stage.losses and not folders.keys().isdisjoint(stage.sets)
    ]
    folders = {name: folder for name, folder in folders.items() if any(name in stage.sets for stage, _ in asking)}
    if not folders:
        return {}
    prepared = with_sets(prepared, folders)
    sizes = {name: len(prepared.splits[split_of(name)]) for name in ("labeled", *folders)}
    seen = {name: np.zeros(sizes[name], dtype=bool) for name in folders}
    plans = {
        (stage.sets, tuple(stage.mix.items()), stage.batch_size, steps, seed): (stage, steps, seed)
        for stage, seed in asking
        for steps in [stage.length(stage.examples(sizes))]
    }
    for stage, steps, seed in plans.values():
        batches = itertools.islice(task_batches(stage, prepared, seed).from_batch(0), steps)
        rows = np.unique(np.concatenate(list(batches)))
        start = 0
        for name in stage.sets:
            if name in seen:
                seen[name][rows[(rows >= start) & (rows < start + sizes[name])] - start] = True
            start += sizes[name]
    return {name: np.flatnonzero(own) for name, own in seen.items() if own.mean() < MOST}
