"""Draws what `points` computed: quality against cost, with the front."""

from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import ArrayLike

from reports.labels import Box, place_labels
from reports.pareto import staircase
from reports.points import Point, Scatter
from reports.svg import inline, log_ticks, new_figure, plain, style
from reports.theme import light

_FAINT = 0.4
_MARKERS = {"square": "s", "circle": "o", "ring": "o", "triangle": "^"}
_MOST_LABELS = 14


def draw_scatter(chart: Scatter) -> str:
    """Quality against cost (log axis): the front as a staircase, points off it faint, error bars for the spread."""
    with style():
        figure = new_figure(370, 300)
        axes = figure.add_axes((0.14, 0.155, 0.83, 0.745))
        axes.set_title(plain(chart.title, 60), loc="left", fontsize=12, color=light("ink"), y=1.02)
        _cost_axis(axes, chart)
        axes.set_ylabel(chart.quality_label)
        for _, value in chart.levels:
            axes.axhline(value, color=light("muted"), linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        _front_line(axes, chart)
        for index, (point, on_front) in enumerate(zip(chart.points, chart.on_front, strict=True)):
            _draw_point(axes, point, on_front, f"point-{index}")
        axes.margins(y=0.14)
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


def _front_line(axes: Axes, chart: Scatter) -> None:
    corners = _corners(chart)
    if len(corners) > 1:
        costs, qualities = zip(*corners, strict=True)
        axes.step(costs, qualities, where="post", color=light("muted"), linewidth=1.2, alpha=0.7, zorder=2)


def _corners(chart: Scatter) -> list[tuple[float, float]]:
    points = [(point.cost, point.quality) for point in chart.points]
    return staircase(points, higher_is_better=chart.higher_is_better)


def _draw_point(axes: Axes, point: Point, on_front: bool, gid: str) -> None:
    colour, alpha = light(point.colour), 1.0 if on_front else _FAINT
    if point.spread:
        axes.errorbar(
            point.cost, point.quality, yerr=point.spread, color=colour, alpha=alpha, linewidth=1.3, capsize=3, zorder=3
        )
    axes.plot(
        point.cost, point.quality, _MARKERS[point.marker], markersize=8.5, color=colour, alpha=alpha, gid=gid,
        markeredgewidth=1.6, markerfacecolor="none" if point.marker == "ring" else colour, zorder=4,
    )  # fmt: skip


def _label_points(axes: Axes, chart: Scatter) -> None:
    """Names beside points and level lines, each name once: at its point on the front, else at its best one."""
    named = _named(chart)
    axes.autoscale_view()
    anchors = [tuple(axes.transData.transform((point.cost, point.quality))) for point, _ in named]
    bounds = _box(axes.get_window_extent())
    levels = _level_anchors(axes, chart, bounds)
    texts = [plain(point.label) for point, _ in named] + [text for text, _ in levels]
    sizes = [_text_size(axes, text) for text in texts]
    obstacles = _obstacles(axes, chart, bounds)
    boxes = place_labels([*anchors, *(anchor for _, anchor in levels)], sizes, bounds, obstacles=obstacles)
    colours = [point.colour if front else "muted" for point, front in named] + ["muted"] * len(levels)
    for text, box, colour in zip(texts, boxes, colours, strict=True):
        x, y = axes.transAxes.inverted().transform(((box.left + box.right) / 2, (box.bottom + box.top) / 2))
        axes.text(
            x, y, text, transform=axes.transAxes, ha="center", va="center_baseline", color=light(colour), zorder=5
        )


def _named(chart: Scatter) -> list[tuple[Point, bool]]:
    """The points that carry a name, and whether they are on the front."""
    sign = 1 if chart.higher_is_better else -1
    pairs = zip(chart.points, chart.on_front, strict=True)
    ranked = sorted(pairs, key=lambda pair: (pair[1], sign * pair[0].quality), reverse=True)
    first: dict[str, tuple[Point, bool]] = {}
    for point, front in ranked:
        first.setdefault(point.label, (point, front))
    return list(first.values())[:_MOST_LABELS]


def _level_anchors(axes: Axes, chart: Scatter, bounds: Box) -> list[tuple[str, tuple[float, float]]]:
    """Level lines are named at their right end."""
    heights = [float(axes.transData.transform((chart.points[0].cost, value))[1]) for _, value in chart.levels]
    return [(plain(name), (bounds.right - 60, height)) for (name, _), height in zip(chart.levels, heights, strict=True)]


def _box(extent: object) -> Box:
    return Box(extent.x0, extent.y0, extent.x1, extent.y1)  # type: ignore[attr-defined]


def _obstacles(axes: Axes, chart: Scatter, bounds: Box) -> list[Box]:
    """What labels should not lie on: error bars, other points, the staircase and the level lines."""
    at = axes.transData.transform
    bars = [
        _segment(at((point.cost, low)), at((point.cost, high)))
        for point in chart.points
        for low, high in [_reach(point)]
    ]
    corners = [at(corner) for corner in _corners(chart)]
    flats = [_segment(before, (after[0], before[1])) for before, after in pairwise(corners)]
    rises = [_segment((after[0], before[1]), after) for before, after in pairwise(corners)]
    heights = [at((chart.points[0].cost, value))[1] for _, value in chart.levels]
    return [*bars, *flats, *rises, *(_segment((bounds.left, y), (bounds.right, y)) for y in heights)]


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
    return extent.width, extent.height
