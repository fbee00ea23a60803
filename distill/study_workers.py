"""The workers of a study: processes that take trials from the store until none waits."""

import multiprocessing
import os
import time
from collections.abc import Sequence
from functools import partial
from multiprocessing.process import BaseProcess

import optuna
import torch

from common.errors import UserError
from common.progress import say
from common.words import counted
from distill.study_objectives import pruner
from distill.study_runner import StoppedError, SurplusError, Trials, objective
from distill.study_sampler import TrialSampler
from distill.study_storage import open_storage, queue_again, revive, waiting
from distill.workers import start_worker

MOST_DEATHS = 5
"""Of workers, after which a study gives up: something kills them all."""


def run_trials(bench: Trials, name: str, deadline: float | None) -> None:
    """Take trials, in as many processes as asked for, until none waits or `deadline` (time.time()) has passed."""
    study = open_study(bench, name)
    count = min(bench.config.processes, max(1, waiting(study)))
    if count == 1:
        work(bench, name, deadline)
        return
    deaths = 0
    context = multiprocessing.get_context("spawn")
    lines = context.Value("i", 0)
    start = (os.getpid(), max(1, torch.get_num_threads() // count), lines)
    workers = [_started(context, bench, name, deadline, start) for _ in range(count)]
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
                    workers[place] = _started(context, bench, name, deadline, start)
    except KeyboardInterrupt:
        # Workers leave Ctrl-C to this process. Found dead by the next command, they would count against their trials.
        _end(workers)
        revive(study, stopped=True)
        raise
    finally:
        _end(workers)


def _end(workers: Sequence[BaseProcess]) -> None:
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.join()


def _started(context, bench: Trials, name: str, deadline: float | None, start) -> BaseProcess:  # type: ignore[no-untyped-def]
    process = context.Process(target=_worker, args=(bench, name, deadline, start), daemon=False)
    process.start()
    return process


def _worker(bench: Trials, name: str, deadline: float | None, start) -> None:  # type: ignore[no-untyped-def]
    start_worker(*start)
    work(bench, name, deadline)


def open_study(bench: Trials, name: str) -> optuna.Study:
    """The study, which is there."""
    options = bench.config.searching
    return optuna.load_study(
        study_name=name,
        storage=open_storage(bench.config.storage, bench.folder),
        sampler=TrialSampler(options),
        pruner=pruner(options),
    )


def work(bench: Trials, name: str, deadline: float | None) -> None:
    """Run trials one after the other; one that fails by its settings is written down as failed, and that is all.

    One that is stopped waits for the next command, which goes on with it.
    """
    study = open_study(bench, name)
    run = partial(objective, bench, study)
    try:
        while waiting(study) and (deadline is None or time.time() < deadline):
            study.optimize(run, n_trials=1, catch=(UserError, SurplusError))
    except StoppedError as stop:
        queue_again(study, stop.number, stopped=True)
        raise KeyboardInterrupt from None
