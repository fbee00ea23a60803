"""Jobs side by side: one-thread processes, which at these sizes get more from the cores than threads in one process."""

import concurrent.futures
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch

from common.progress import say, take_line
from distill.job import Job, Shared
from distill.training import run_job


def run_jobs(jobs: Sequence[Job], shared: Shared, workers: int) -> None:
    """Run every job that is not finished. The first failure ends the others, which keep their checkpoints."""
    waiting = [job for job in jobs if not job.finished]
    # From all jobs and not from the waiting ones: with another number of threads sums round otherwise, and a resumed
    # run would not end with the same weights.
    workers = min(workers, len(jobs))
    run_calls([partial(run_job, job, shared) for job in waiting], workers)


def run_calls(calls: Sequence[Callable[[], None]], workers: int) -> None:
    """Train so many models at a time; of functions that can be sent to another process. The first failure ends all."""
    if workers == 1:
        for call in calls:
            call()
    elif calls:
        _run_side_by_side(calls, workers)


def threads_each(jobs: int, workers: int) -> int:
    """Threads that one of `jobs` jobs trains with."""
    return max(1, torch.get_num_threads() // min(workers, jobs))


def _run_side_by_side(calls: Sequence[Callable[[], None]], workers: int) -> None:
    say(f"training {len(calls)} model{'s' if len(calls) > 1 else ''}, {workers} at a time")
    context = multiprocessing.get_context("spawn")
    lines = context.Value("i", 0)
    start = (os.getpid(), max(1, torch.get_num_threads() // workers), lines)
    with concurrent.futures.ProcessPoolExecutor(
        workers, mp_context=context, initializer=start_worker, initargs=start
    ) as pool:
        futures = [pool.submit(call) for call in calls]
        try:
            for future in concurrent.futures.as_completed(futures):
                future.result()
        except BaseException:
            # Nothing is lost: a job goes on from its last checkpoint when the run is resumed.
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def start_worker(parent: int, threads: int, lines: "multiprocessing.sharedctypes.Synchronized[int]") -> None:
    """Make this process one of several that train side by side, with so many threads, and that end with `parent`."""
    # Ctrl-C reaches every process of a terminal: the parent alone answers it, and ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    with lines.get_lock():
        take_line(lines.value)
        lines.value += 1
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process with its parent: a killed run must not train on, unseen, into a folder that is then resumed."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
