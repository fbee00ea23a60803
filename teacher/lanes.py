"""Forward passes side by side: two Python threads whose operations run in one torch thread each.

At the sizes of this product a second torch thread inside every operation brings less (see teacher.step).
"""

import concurrent.futures
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

LANES = 2

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(
    function: Callable[[Item], Result], items: Sequence[Item], *, device: torch.device
) -> Iterator[Result]:
    """`function` of every item, in their order; on a CPU with threads for it, two at a time.

    `function` sets inference mode and autocast itself: both belong to a thread.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads < LANES or len(items) < LANES:
        yield from map(function, items)
        return
    pool = concurrent.futures.ThreadPoolExecutor(LANES, initializer=torch.set_num_threads, initargs=(threads // LANES,))
    try:
        yield from pool.map(function, items)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)
