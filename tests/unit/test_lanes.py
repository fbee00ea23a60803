"""Forward passes side by side."""

import threading
from collections.abc import Iterator

import pytest
import torch

from teacher.lanes import side_by_side

CPU = torch.device("cpu")


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_results_keep_the_order_of_the_items_and_two_are_computed_at_a_time(two_threads: None) -> None:
    meeting = threading.Barrier(2, timeout=30)

    def work(item: int) -> tuple[int, int]:
        meeting.wait()
        return item, torch.get_num_threads()

    assert list(side_by_side(work, range(6), device=CPU)) == [(item, 1) for item in range(6)]
    assert torch.get_num_threads() == 2


def test_one_thread_computes_in_the_callers(two_threads: None) -> None:
    torch.set_num_threads(1)
    assert set(side_by_side(lambda _: threading.get_ident(), range(4), device=CPU)) == {threading.get_ident()}


def test_a_failure_is_the_callers_and_threads_come_back(two_threads: None) -> None:
    def fail(item: int) -> int:
        raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item 0"):
        list(side_by_side(fail, range(50), device=CPU))
    assert torch.get_num_threads() == 2
