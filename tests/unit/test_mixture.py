"""Several sets as one: who is drawn how often, and who has labels."""

import dataclasses
from collections import Counter

import numpy as np
import pytest

from distill.mixture import Mixture, apportion, mixed_batches, mixture
from teacher.data import Example, TaskData
from teacher.tasks import task_for
from teacher.tasks.base import Encoded, Task


def _mixture(sizes: tuple[int, ...], shares: tuple[float | None, ...]) -> Mixture:
    names = ("labeled", "unlabeled", "augmented")[: len(sizes)]
    parts = {
        name: Encoded(
            input_ids=[np.arange(3 + row % 4) + 10 * place for row in range(size)],
            token_types=[np.zeros(3 + row % 4, dtype=np.int64) for row in range(size)],
            labels=np.full(size, place, dtype=np.int64),
            max_length=16,
            truncated=place,
        )
        for place, (name, size) in enumerate(zip(names, sizes, strict=True))
    }
    return mixture(parts, dict(zip(names, shares, strict=True)))


def _task() -> Task:
    rows = (Example("a", None, 0), Example("b", None, 1))
    splits = {"train": rows, "select": rows, "evaluate": rows}
    data = TaskData(
        name="t", kind="classification", labels=("x", "y"), metric="accuracy", origins={}, fingerprint="0", sources={},
        splits=splits,
    )  # fmt: skip
    return task_for(data)


def test_without_shares_every_example_comes_once_an_epoch() -> None:
    mixed = _mixture((7, 20, 5), (None, None, None))
    for epoch in range(3):
        assert sorted(mixed.draws(4, epoch)) == list(range(32))
    assert list(mixed.draws(4, 0)) != list(mixed.draws(4, 1))


def test_shares_are_kept_in_every_epoch_and_a_set_is_dealt_out_evenly() -> None:
    mixed = _mixture((10, 30), (1.0, 3.0 / 5))
    assert mixed.shares == pytest.approx((0.625, 0.375))
    counts: Counter[int] = Counter()
    for epoch in range(9):
        drawn = mixed.draws(0, epoch)
        assert len(drawn) == 40
        assert (drawn < 10).sum() == 25
        counts.update(drawn.tolist())
        for part in (range(10), range(10, 40)):
            times = [counts[index] for index in part]
            assert max(times) - min(times) <= 1


def test_draws_are_a_pure_function_of_seed_and_epoch() -> None:
    mixed = _mixture((10, 30), (1.0, 1.0))
    late = mixed.draws(3, 5)
    for epoch in range(6):
        again = mixed.draws(3, epoch)
    assert np.array_equal(again, late)
    assert not np.array_equal(mixed.draws(2, 5), late)


@pytest.mark.parametrize(("total", "shares"), [(1, (0.5, 0.5)), (7, (3 / 7, 4 / 7)), (100, (0.333, 0.333, 0.334))])
def test_apportioned_numbers_add_up_and_are_near_their_shares(total: int, shares: tuple[float, ...]) -> None:
    counts = apportion(total, shares)
    assert sum(counts) == total
    assert all(abs(count - total * share) < 1 for count, share in zip(counts, shares, strict=True))


def test_batches_say_where_their_rows_stand_in_the_mixture() -> None:
    mixed = _mixture((6, 9), (2.0, 1.0))
    batches = mixed_batches(mixed, _task(), 0, batch_size=4, seed=1)
    assert batches.steps_per_epoch == 4
    plan = batches.plan(2)
    assert sorted(np.concatenate(plan)) == sorted(mixed.draws(1, 2))
    for indices in plan:
        batch = batches.collate(indices, 0)
        assert batch["index"].tolist() == list(indices)
        assert mixed.labeled[indices].tolist() == [index < 6 for index in indices]
        assert batch["labels"].tolist() == [int(index >= 6) for index in indices]
        assert batch["attention_mask"].sum(1).tolist() == [mixed.encoded.lengths[index] for index in indices]
        assert (batch["input_ids"][:, 0] < 10).tolist() == mixed.labeled[indices].tolist()
    with pytest.raises(ValueError, match="counted in examples"):
        dataclasses.replace(batches, tokens=100)
