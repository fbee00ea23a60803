"""Numbers as a reader sees them."""

import pytest

from reports.record import Interval
from reports.words import compared, duration, metric_style, number, percent, scaled, significant, times


@pytest.mark.parametrize(
    ("value", "text"),
    [(999_949, "1.00 M"), (999_499, "999 k"), (14_350_248, "14.4 M"), (2.794e9, "2.79 G"), (999, "999"), (0, "0")],
)
def test_scaled(value: float, text: str) -> None:
    assert scaled(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(-0.5, "−0.500"), (99.96, "100"), (9.996, "10.0"), (-3.1e-5, "−3.1e-05"), (0, "0")]
)
def test_significant(value: float, text: str) -> None:
    assert significant(value) == text


@pytest.mark.parametrize(("seconds", "text"), [(59.96, "1 min 0 s"), (3599.6, "1 h 0 min"), (0.04, "0.0 s")])
def test_duration_never_says_60(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("teacher", "model", "text"),
    [
        (1.0, 1.04, "same"),
        (1.0, 0.96, "same"),
        (3.0, 1.0, "3.0× less"),
        (1.0, 1.5, "1.5× more"),
        (1.05, 1.0, "1.05× less"),
        (0.0, 1.0, ""),
    ],
)
def test_compared(teacher: float, model: float, text: str) -> None:
    assert compared(teacher, model, less="less", more="more", same="same") == text


def test_metric_styles() -> None:
    accuracy, correlation = metric_style("accuracy"), metric_style("pearson_spearman")
    assert (accuracy.heading, accuracy.value(0.8612), accuracy.difference(-0.021)) == (
        "accuracy, %",
        "86.1",
        "2.1 points",
    )
    assert (correlation.heading, correlation.value(0.8605)) == ("mean of Pearson and Spearman", "0.861")
    assert metric_style("macro_f1").heading == "macro F1, %"
    assert accuracy.interval(Interval(difference=0, low=-0.0251, high=0.0)) == "−2.5 to 0.0"
    assert accuracy.signed(0.004) == "+0.4"


@pytest.mark.parametrize(
    ("metric", "low", "high", "text"),
    [
        ("accuracy", 0.0003, 0.0121, "+0.03 to +1.2"),
        ("accuracy", -0.0003, 0.0121, "−0.03 to +1.2"),
        ("accuracy", -0.00002, 0.000004, "−0.002 to +0.0004"),
        ("matthews", -0.00012, 0.0005, "−0.0001 to +0.001"),
        ("accuracy", 0.0, -1e-17, "0.0 to 0.0"),
    ],
)
def test_rounding_does_not_hide_on_which_side_of_zero_an_end_lies(
    metric: str, low: float, high: float, text: str
) -> None:
    style = metric_style(metric)
    assert style.interval(Interval(difference=0, low=low, high=high)) == text
    assert style.difference(low).split()[0] == text.split(maxsplit=1)[0].strip("+−")


def test_what_is_less_than_the_whole_is_not_rounded_to_it() -> None:
    assert percent(0.85897 / 0.859) == "99.997 %"
    assert percent(1.00003) == percent(1 - 1e-15) == "100.0 %"
    assert times(1.049) == "1.05×"
    assert (times(19.96), times(123.4)) == ("20.0×", "123×")


def test_no_minus_before_zero() -> None:
    assert number(-0.04, 1) == "0.0"
