"""The workers of a study: processes that take trials from the store until none waits."""

import multiprocessing
import os
import time
from functools import partial
from multiprocessing.process import BaseProcess

import optuna
import torch

from common.errors import UserError
from common.progress import say
from common.words import counted
from distill.study_objectives import pruner, sampler
from distill.study_runner import SurplusError, Trials, objective
from distill.study_storage import open_storage, revive, waiting
from distill.workers import start_worker

MOST_DEATHS = 5
"""Of workers, after which a study gives up: something kills them all."""


def run_trials(bench: Trials, name: str, deadline: float | None) -> None:
    """Take trials, in as many processes as asked for, until none waits or `deadline` (time.time()) has passed."""
    study = open_study(bench, name, 0)
    count = min(bench.config.processes, max(1, waiting(study)))
    if count == 1:
        work(bench, name, 0, deadline)
        return
    deaths = 0
    context = multiprocessing.get_context("spawn")
    lines = context.Value("i", 0)
    start = (os.getpid(), max(1, torch.get_num_threads() // count), lines)
    workers = [_started(context, bench, name, index, deadline, start) for index in range(count)]
    try:
        while any(worker.is_alive() for worker in workers):
            time.sleep(0.2)
            for place, worker in enumerate(workers):
                if worker.exitcode not in (None, 0):
                    deaths += 1
                    again = revive(study)
                    say(f"a worker died (exit code {worker.exitcode}); {counted(again, 'trial')} queued again")
                    if deaths > MOST_DEATHS:
                        raise UserError(f"{deaths} workers died: see above; the same command goes on with the study")
                    workers[place] = _started(context, bench, name, place + count * deaths, deadline, start)
    finally:
        for worker in workers:
            worker.terminate()


def _started(context, bench: Trials, name: str, index: int, deadline: float | None, start) -> BaseProcess:  # type: ignore[no-untyped-def]
    process = context.Process(target=_worker, args=(bench, name, index, deadline, start), daemon=False)
    process.start()
    return process


def _worker(bench: Trials, name: str, index: int, deadline: float | None, start) -> None:  # type: ignore[no-untyped-def]
    start_worker(*start)
    work(bench, name, index, deadline)


def open_study(bench: Trials, name: str, index: int) -> optuna.Study:
    """The study, which is there, with a sampler of this worker's own random draws."""
    options = bench.config.searching
    return optuna.load_study(
        study_name=name,
        storage=open_storage(bench.config.storage, bench.folder),
        sampler=sampler(options, options.seed + 1000 * index + len(os.listdir(bench.folder / "costs"))),
        pruner=pruner(options),
    )


def work(bench: Trials, name: str, index: int, deadline: float | None) -> None:
    """Run trials one after the other; one that fails by its settings is written down as failed, and that is all."""
    study = open_study(bench, name, index)
    run = partial(objective, bench, study)
    while waiting(study) and (deadline is None or time.time() < deadline):
        study.optimize(run, n_trials=1, catch=(UserError, SurplusError))
