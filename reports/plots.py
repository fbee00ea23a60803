"""Draws what `points` computed: quality against cost, with the front."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import ArrayLike

from reports.labels import Box, leader, marker_boxes, place_labels, place_on_line
from reports.pareto import staircase
from reports.points import Point, Scatter
from reports.svg import inline, log_ticks, new_figure, plain, style
from reports.theme import light

_SMALL = 0.65
"""Of models off the front, against those on it: smaller, since a paler colour is hard to see on white."""
_MARKERS = {"square": "s", "circle": "o", "ring": "o", "triangle": "^"}
_MOST_LABELS = 14


def draw_scatter(chart: Scatter) -> str:
    """Quality against cost (log axis): the front as a staircase, points off it small, error bars for the spread."""
    with style():
        figure = new_figure(370, 300)
        axes = figure.add_axes((0.14, 0.155, 0.83, 0.745))
        axes.set_title(plain(chart.title, 60), loc="left", fontsize=12, color=light("ink"), y=1.02)
        _cost_axis(axes, chart)
        axes.set_ylabel(chart.quality_label)
        for _, value in chart.levels:
            axes.axhline(value, color=light("muted"), linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        for index, (point, on_front) in enumerate(zip(chart.points, chart.on_front, strict=True)):
            _draw_point(axes, point, on_front, f"point-{index}")
        axes.margins(y=0.14)
        axes.autoscale_view()
        axes.set_ylim(axes.get_ylim())
        axes.plot(*zip(*_staircase(axes, chart), strict=True), color=light("muted"), linewidth=1.2, alpha=0.7, zorder=2)
        _label_points(axes, chart)
        tips = {f"point-{index}": point.detail for index, point in enumerate(chart.points)}
        return inline(figure, f"{chart.title}: {chart.quality_label} against {chart.cost_label}", tips=tips)


def _cost_axis(axes: Axes, chart: Scatter) -> None:
    costs = [point.cost for point in chart.points]
    low, high = min(costs), max(costs)
    room = max((high / low) ** 0.16, 1.25)
    axes.set_xscale("log")
    axes.set_xlim(low / room, high * room)
    axes.xaxis.set_major_locator(FixedLocator(log_ticks(low / room, high * room)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(f"{chart.cost_label} (log scale; left is better)")


def _staircase(axes: Axes, chart: Scatter) -> list[tuple[float, float]]:
    """Its corners, from the edge of worst quality to the edge of highest cost: one best point makes a step too."""
    points = [(point.cost, point.quality) for point in chart.points]
    front = staircase(points, higher_is_better=chart.higher_is_better)
    worst = axes.get_ylim()[0 if chart.higher_is_better else 1]
    flats = [corner for before, after in pairwise(front) for corner in (before, (after[0], before[1]))]
    return [(front[0][0], worst), *flats, front[-1], (axes.get_xlim()[1], front[-1][1])]


def _draw_point(axes: Axes, point: Point, on_front: bool, gid: str) -> None:
    colour, ring, scale = light(point.colour), point.marker == "ring", 1.0 if on_front else _SMALL
    if point.spread:
        axes.errorbar(
            point.cost, point.quality, yerr=point.spread,
            color=colour, linewidth=1.3 * scale, capsize=3 * scale, zorder=3,
        )  # fmt: skip
    # A ring is wider, and thinner instead of smaller: it must show around its student where both are equally good.
    axes.plot(
        point.cost, point.quality, _MARKERS[point.marker], markersize=13 if ring else 8.5 * scale,
        color=colour, gid=gid,
        markeredgewidth=1.6 * scale, markerfacecolor="none" if ring else colour, zorder=4,
    )  # fmt: skip


def _label_points(axes: Axes, chart: Scatter) -> None:
    """Names beside points and on level lines, each name once: at its point on the front, else at its best one."""
    named, bounds = _named(chart), _box(axes.get_window_extent())
    at = axes.transData.transform
    everywhere = [tuple(at((point.cost, point.quality))) for point in chart.points]
    anchors = [tuple(at((point.cost, point.quality))) for point, _ in named]
    taken = marker_boxes(everywhere)
    for name, value in chart.levels:
        height = float(at((chart.points[0].cost, value))[1])
        taken.append(place_on_line(height, _text_size(axes, plain(name)), bounds, taken))
        _write(axes, plain(name), taken[-1], "muted")
    sizes = [_text_size(axes, plain(point.label)) for point, _ in named]
    boxes = place_labels(anchors, sizes, bounds, others=taken, obstacles=_lines(axes, chart, bounds))
    for (point, front), anchor, box in zip(named, anchors, boxes, strict=True):
        colour = point.colour if front else "muted"
        _write(axes, plain(point.label), box, colour)
        _point_out(axes, leader(anchor, box), colour)


def _write(axes: Axes, text: str, box: Box, colour: str) -> None:
    x, y = axes.transAxes.inverted().transform(((box.left + box.right) / 2, (box.bottom + box.top) / 2))
    axes.text(x, y, text, transform=axes.transAxes, ha="center", va="center_baseline", color=light(colour), zorder=5)


def _point_out(axes: Axes, ends: Sequence[tuple[float, float]], colour: str) -> None:
    if ends:
        x, y = zip(*axes.transAxes.inverted().transform(ends), strict=True)
        axes.plot(x, y, transform=axes.transAxes, color=light(colour), linewidth=0.8, alpha=0.6, zorder=3)


def _named(chart: Scatter) -> list[tuple[Point, bool]]:
    """The points that carry a name, and whether they are on the front."""
    sign = 1 if chart.higher_is_better else -1
    pairs = zip(chart.points, chart.on_front, strict=True)
    ranked = sorted(pairs, key=lambda pair: (pair[1], sign * pair[0].quality), reverse=True)
    first: dict[str, tuple[Point, bool]] = {}
    for point, front in ranked:
        first.setdefault(point.label, (point, front))
    return list(first.values())[:_MOST_LABELS]


def _box(extent: object) -> Box:
    return Box(extent.x0, extent.y0, extent.x1, extent.y1)  # type: ignore[attr-defined]


def _lines(axes: Axes, chart: Scatter, bounds: Box) -> list[Box]:
    """What labels should not lie on: error bars, the staircase and the level lines."""
    at = axes.transData.transform
    bars = [
        _segment(at((point.cost, low)), at((point.cost, high)))
        for point in chart.points
        for low, high in [_reach(point)]
    ]
    steps = [_segment(at(before), at(after)) for before, after in pairwise(_staircase(axes, chart))]
    heights = [at((chart.points[0].cost, value))[1] for _, value in chart.levels]
    return [*bars, *steps, *(_segment((bounds.left, y), (bounds.right, y)) for y in heights)]


def _reach(point: Point) -> tuple[float, float]:
    """The ends of its error bar."""
    spread = point.spread or 0.0
    return point.quality - spread, point.quality + spread


def _segment(start: ArrayLike, end: ArrayLike) -> Box:
    """A line with room around it."""
    (left, low), (right, high) = np.minimum(start, end), np.maximum(start, end)
    return Box(float(left) - 3, float(low) - 3, float(right) + 3, float(high) + 3)


def _text_size(axes: Axes, text: str) -> tuple[float, float]:
    drawn = axes.text(0, 0, text)
    extent = drawn.get_window_extent()
    drawn.remove()
    return extent.width + 6, extent.height
