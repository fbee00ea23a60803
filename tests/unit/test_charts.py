"""Charts: what they show, and that drawing is repeatable and leaves matplotlib alone."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import matplotlib as mpl
import pytest
from unit import record_factory

from reports.cells import headline_cells
from reports.curves import curve_kind, curve_stack, layer_stacks, stages_of, term_colours, thin
from reports.panels import draw_stack
from reports.plots import draw_scatter
from reports.points import Scatter, disk_cost, latency_cost, model_colours, scatter
from reports.record import Record
from reports.theme import COLOURS


@pytest.fixture(scope="module")
def record() -> Record:
    return record_factory.rich()


def size_chart(record: Record) -> Scatter:
    chart = scatter([record], disk_cost, title="Size", cost_label="MB", colours=model_colours([record]))
    assert chart is not None
    return chart


def texts(svg: str) -> list[str]:
    """Every text of a drawing that is well-formed as XML."""
    root = ElementTree.fromstring(svg.replace("xlink:href", "href"))
    return [element.text or "" for element in root.iter("text")]


def test_scatter_knows_front_levels_and_colours(record: Record) -> None:
    chart = size_chart(record)
    found = {
        point.label: (on_front, point.colour, point.marker)
        for point, on_front in zip(chart.points, chart.on_front, strict=True)
    }
    assert found == {
        "teacher": (True, "ink", "square"),
        "tiny": (True, "series-0", "circle"),
        "tiny twin": (False, "series-0", "ring"),
        "distil": (True, "series-1", "circle"),
        "distil twin": (False, "series-1", "ring"),
        "albert": (True, "series-2", "circle"),
    }
    assert [name for name, _ in chart.levels] == ["TF-IDF + logistic regression"]


def test_latency_points_are_those_of_the_cell(record: Record) -> None:
    small, large = headline_cells(record)
    assert (small.batch, small.length, small.threads, large.batch, large.length, large.threads) == (
        1,
        16,
        1,
        32,
        128,
        1,
    )
    chart = scatter([record], latency_cost(small), title="", cost_label="", colours={})
    assert chart is not None
    assert chart.points[0].cost == 2.6


def test_nothing_measured_gives_no_chart() -> None:
    record = record_factory.minimal()
    assert scatter([record], disk_cost, title="", cost_label="", colours={}) is None
    assert headline_cells(record) == []
    assert layer_stacks(record, {}) == []


def test_other_cells_stand_in_for_missing_ones(record: Record) -> None:
    teacher = record.models[0]
    assert teacher.speed is not None
    odd = tuple(replace(cell, batch=cell.batch * 2) for cell in teacher.speed.latency)
    changed = replace(record, models=(replace(teacher, speed=replace(teacher.speed, latency=odd)), *record.models[1:]))
    assert [(cell.batch, cell.length) for cell in headline_cells(changed)] == [(2, 16), (64, 128)]


def test_scatter_names_every_model_once_and_outside_nothing(record: Record) -> None:
    svg = draw_scatter(size_chart(record))
    for name in ("teacher", "tiny", "tiny twin", "distil", "distil twin", "albert", "TF-IDF + logistic regression"):
        assert texts(svg).count(name) == 1
    assert f"<title>albert in {record.name}: 83.2 at 23.7</title>" in svg


def test_drawing_is_byte_identical_and_deaf_to_user_settings(record: Record) -> None:
    first = draw_scatter(size_chart(record))
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "black", "svg.fonttype": "path"}):
        before = dict(mpl.rcParams)
        assert draw_scatter(size_chart(record)) == first
        assert dict(mpl.rcParams) == before


def test_colours_and_font_come_from_the_page(record: Record) -> None:
    svg = draw_scatter(size_chart(record))
    assert "var(--ink)" in svg
    assert "var(--series-0)" in svg
    assert not any(light in svg or dark in svg for light, dark in COLOURS.values())
    assert "font-family" not in svg
    assert "#ffffff" not in svg
    assert "http" not in svg


def test_ids_differ_between_charts_of_a_page(record: Record) -> None:
    small = latency_cost(headline_cells(record)[0])
    other = scatter([record], small, title="Latency", cost_label="ms", colours={})
    assert other is not None

    def ids(svg: str) -> set[str]:
        root = ElementTree.fromstring(svg.replace("xlink:href", "href"))
        found = [element.get("id") for element in root.iter() if element.get("id")]
        assert len(found) == len(set(found))
        return {name for name in found if name}

    first, second = ids(draw_scatter(size_chart(record))), ids(draw_scatter(other))
    assert first
    assert not first & second


@pytest.mark.parametrize("name", ["$x_1^2$", "<b>&amp;", "$\\frac", "_hidden", "two\nlines", "模型"])
def test_strange_names_are_drawn_as_they_are(name: str, record: Record) -> None:
    chart = size_chart(record)
    points = (replace(chart.points[0], label=name), *chart.points[1:])
    assert name.replace("\n", " ") in texts(draw_scatter(replace(chart, points=points)))


def test_curves_have_axes_by_kind(record: Record) -> None:
    tiny = record.model("tiny")
    assert stages_of(tiny) == ["general", "intermediate", "prediction"]
    stack = curve_stack(tiny, "prediction", term_colours(record))
    assert stack is not None
    assert [panel.title for panel in stack.panels] == ["loss", "selection metric", "gradient norm", "learning rate"]
    loss, metric = stack.panels[0], stack.panels[1]
    assert loss.log
    assert [(line.label, line.heavy) for line in loss.lines] == [("soft", False), ("hard", False), ("total", True)]
    assert metric.marked == 900
    svg = draw_stack(stack)
    assert {"soft", "hard", "total", "loss (log scale)"} <= set(texts(svg))
    assert svg == draw_stack(stack)
    assert curve_stack(tiny, "no such stage", {}) is None


def test_a_term_has_one_colour_in_all_stages(record: Record) -> None:
    colours = term_colours(record)
    general, intermediate = (curve_stack(record.model("tiny"), stage, colours) for stage in ("general", "intermediate"))
    assert general is not None
    assert intermediate is not None
    assert [line.colour for line in general.panels[0].lines] == [line.colour for line in intermediate.panels[0].lines]
    assert len(set(colours.values())) == len(colours) == 6


def test_curve_kinds() -> None:
    assert curve_kind("gradient_norm/soft") == "gradient norm"
    assert curve_kind("learning rate") == "learning rate"
    assert curve_kind("selection metric") == "selection metric"
    assert curve_kind("anything else") == "loss"


def test_thin_keeps_means_and_the_end() -> None:
    steps, values = thin(tuple(range(1, 1001)), tuple(float(value) for value in range(1000)), limit=100)
    assert len(steps) == len(values) == 100
    assert steps[-1] == 1000
    assert values[0] == 4.5
    assert thin((1, 2), (3.0, 4.0)) == ((1.0, 2.0), (3.0, 4.0))


def test_single_points_and_zeros_can_be_drawn(record: Record) -> None:
    tiny = record.model("tiny")
    flat = tuple(replace(curve, steps=curve.steps[:1], values=(0.0,)) for curve in tiny.curves)
    stack = curve_stack(replace(tiny, curves=flat), "general", {})
    assert stack is not None
    assert not stack.panels[0].log
    assert "embedding" in texts(draw_stack(stack))
    chart = size_chart(record)
    assert texts(draw_scatter(replace(chart, points=chart.points[:1], on_front=(True,), levels=())))


def test_layers_of_students_and_twins(record: Record) -> None:
    hidden, attention = layer_stacks(record, model_colours([record]))
    assert [(line.label, line.dashed) for line in hidden.panels[0].lines] == [
        ("tiny", False),
        ("tiny twin", True),
        ("distil", False),
        ("albert", False),
    ]
    assert min(attention.panels[0].lines[0].x) > 0
    assert "tiny twin" in texts(draw_stack(hidden, markers=True))
