"""Charts: what they show, and that drawing is repeatable and leaves matplotlib alone."""

import itertools
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import matplotlib as mpl
import pytest
from unit import record_factory

from reports.cells import headline_cells
from reports.curves import curve_kind, curve_stack, layer_stacks, stages_of, term_colours, thin
from reports.labels import Box, leader, place_on_line
from reports.panels import draw_stack
from reports.plots import _staircase, draw_scatter
from reports.points import Scatter, disk_cost, latency_cost, model_colours, scatter
from reports.record import Record
from reports.svg import new_figure, style
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
        "tiny without distillation": (False, "series-0", "ring"),
        "distil": (True, "series-1", "circle"),
        "distil without distillation": (False, "series-1", "ring"),
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


def unmeasured_twins(record: Record) -> Record:
    """Twins without a latency and a size of their own, as runs write them, and all models equally good."""
    cards = []
    for card in record.models:
        flat = replace(card.quality, value=0.5, spread=None) if card.role != "baseline" else card.quality
        cards.append(replace(card, quality=flat, speed=None if card.role == "twin" else card.speed))
    return replace(record, models=tuple(cards))


def test_a_twin_stands_at_its_students_latency(record: Record) -> None:
    chart = scatter(
        [unmeasured_twins(record)], latency_cost(headline_cells(record)[0]), title="", cost_label="", colours={}
    )
    assert chart is not None
    costs = {point.label: point.cost for point in chart.points}
    assert costs["tiny without distillation"] == costs["tiny"] == pytest.approx(0.832)
    assert "at 0.832, tiny's cost" in next(point.detail for point in chart.points if point.marker == "ring")
    assert [name for name, _ in chart.levels] == ["TF-IDF + logistic regression"]
    orphan = replace(record, models=tuple(card for card in unmeasured_twins(record).models if card.name != "tiny"))
    left = scatter([orphan], latency_cost(headline_cells(record)[0]), title="", cost_label="", colours={})
    assert left is not None
    assert "tiny without distillation" in dict(left.levels)


def test_labels_of_equally_good_models_do_not_collide(record: Record) -> None:
    equal = unmeasured_twins(record)
    for cost in (*(latency_cost(cell) for cell in headline_cells(record)), disk_cost):
        chart = scatter([equal], cost, title="x", cost_label="ms", colours=model_colours([equal]))
        assert chart is not None
        boxes = {name: box for name, box in text_boxes(draw_scatter(chart)) if name in {c.name for c in equal.models}}
        assert len(boxes) == 7
        for (name, box), (other, beside) in itertools.combinations(boxes.items(), 2):
            assert box.overlap(beside) == 0, (name, other)


def text_boxes(svg: str) -> list[tuple[str, Box]]:
    """Texts of a drawing with the place they take."""
    with style():
        axes = new_figure(300, 300).add_axes((0, 0, 1, 1))
        widths = {text: axes.text(0, 0, text).get_window_extent().width for text in texts(svg)}
    root = ElementTree.fromstring(svg.replace("xlink:href", "href"))
    found = []
    for element in root.iter():
        if element.tag.endswith("text") and "middle" in (element.get("style") or ""):
            x, y, half = float(element.get("x", 0)), float(element.get("y", 0)), widths[element.text or ""] / 2
            found.append((element.text or "", Box(x - half, y - 8, x + half, y + 2)))
    return found


def test_a_level_is_named_on_its_line() -> None:
    bounds = Box(0, 0, 300, 200)
    box = place_on_line(100, (80, 14), bounds, [])
    assert (box.right, box.bottom) == (300, 102)
    beside = place_on_line(100, (80, 14), bounds, [box])
    assert beside.overlap(box) == 0
    assert min(abs(beside.bottom - 100), abs(beside.top - 100)) == 2


def test_far_labels_are_tied_to_their_points() -> None:
    assert leader((0, 0), Box(8, -7, 60, 7)) == ()
    assert leader((0, 0), Box(40, -7, 90, 7)) == ((7, 0), (40, 0))


@pytest.mark.parametrize("higher", [True, False])
def test_a_single_best_point_makes_a_step(record: Record, higher: bool) -> None:
    chart = replace(size_chart(record), higher_is_better=higher)
    point = chart.points[0]
    single = replace(chart, points=(point,), on_front=(True,), levels=())
    axes = new_figure(300, 300).add_axes((0.1, 0.1, 0.8, 0.8))
    axes.set(xlim=(1, 1000), ylim=(0, 100))
    edge = 0 if higher else 100
    assert _staircase(axes, single) == [(point.cost, edge), (point.cost, point.quality), (1000, point.quality)]


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
    for name in (
        "teacher",
        "tiny",
        "tiny without distillation",
        "distil",
        "distil without distillation",
        "albert",
        "TF-IDF + logistic regression",
    ):
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
        ("tiny without distillation", True),
        ("distil", False),
        ("albert", False),
    ]
    assert min(attention.panels[0].lines[0].x) > 0
    assert "tiny without distillation" in texts(draw_stack(hidden, markers=True))
