"""Weights and temperatures that change over a stage."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import UserError
from distill.schedules import Schedule, progress_of, value_at
from distill.stages import Stage


def test_a_schedule_starts_and_ends_where_it_says() -> None:
    for shape in ("linear", "cosine"):
        schedule = Schedule(start=4.0, end=1.0, shape=shape)
        values = [value_at(schedule, progress_of(step, 9)) for step in range(9)]
        assert (values[0], values[-1]) == (4.0, 1.0)
        assert values == sorted(values, reverse=True)
    assert value_at(2.5, 0.7) == 2.5


@given(st.floats(0, 1))
def test_shapes(progress: float) -> None:
    assert Schedule(start=0.0, end=2.0).at(progress) == pytest.approx(2 * progress)
    cosine = Schedule(start=0.0, end=2.0, shape="cosine").at(progress)
    assert cosine == pytest.approx(1 - math.cos(math.pi * progress), abs=1e-12)


def test_wrong_numbers_are_named() -> None:
    def stage(**changes: object) -> Stage:
        given = {"name": "x", "description": "", "teacher": "finetuned", "data": "train", "learning_rate": 1e-4}
        return Stage(**given | {"losses": {"soft": 1.0}} | changes)

    with pytest.raises(UserError, match="weight 1 to -1, linear of soft"):
        stage(losses={"soft": Schedule(start=1.0, end=-1.0)})
    with pytest.raises(UserError, match="temperature 0"):
        stage(temperature=0)
    with pytest.raises(UserError, match="'linear' or 'cosine'"):
        Schedule(start=1.0, end=0.0, shape="quadratic")
    with pytest.raises(UserError, match="'shared' or 'per layer'"):
        stage(projection="each")
    with pytest.raises(UserError, match="compares hidden states"):
        stage(layers="nearest", losses={"attention": 1.0})
    assert stage(temperature=Schedule(start=8.0, end=1.0)).schedules() == {"temperature": "8 to 1, linear"}
