"""Draws what `curves` computed: panels above one another, with a shared x axis."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from reports.curves import Line, Panel, Stack
from reports.labels import spread_apart
from reports.svg import inline, log_ticks, new_figure, plain, style
from reports.theme import light


def draw_stack(stack: Stack, *, markers: bool = False) -> str:
    """Panels above one another; the first is the tallest. Lines carry their names at the right end."""
    with style():
        heights = [170.0, *(70.0 for _ in stack.panels[1:])]
        width, gap, above, below, left = 370.0, 26.0, 48.0, 40.0, 46.0
        longest = max(len(line.label) for panel in stack.panels for line in panel.lines)
        right = min(max(98.0, 20 + 6.3 * longest), 178.0)
        total = above + sum(heights) + gap * (len(heights) - 1) + below
        figure = new_figure(width, total)
        figure.text(0, 1 - 14 / total, plain(stack.title, 60), fontsize=12, va="baseline")
        top = total - above
        for panel, height in zip(stack.panels, heights, strict=True):
            area = (left / width, (top - height) / total, (width - left - right) / width, height / total)
            _draw_panel(figure.add_axes(area), panel, stack, markers=markers)
            top -= height + gap
        for axes in figure.axes[:-1]:
            axes.tick_params(labelbottom=False)
        figure.axes[-1].set_xlabel(stack.x_label)
        return inline(figure, f"{stack.title}: {', '.join(panel.title for panel in stack.panels)} by {stack.x_label}")


def _draw_panel(axes: Axes, panel: Panel, stack: Stack, *, markers: bool) -> None:
    title = panel.title + (" (log scale)" if panel.log else "")
    axes.set_title(title, loc="left", fontsize=10, color=light("muted"), pad=4, y=1.0)
    if panel.log:
        axes.set_yscale("log")
    if panel.from_zero:
        axes.set_ylim(0, 1.06 * max(max(line.y) for line in panel.lines) or 1)
    for line in panel.lines:
        single = "o" if markers or len(line.x) < 12 else ""
        axes.plot(
            line.x, line.y, color=light(line.colour), marker=single, markersize=4, linewidth=2.2 if line.heavy else 1.5,
            linestyle=(0, (3, 2)) if line.dashed else "-", zorder=3 if line.heavy else 4,
        )  # fmt: skip
    if panel.marked is not None:
        axes.axvline(panel.marked, color=light("muted"), linewidth=1, linestyle=(0, (2, 2)), zorder=2)
    _shared_x(axes, stack, whole=markers)
    _y_ticks(axes, log=panel.log)
    if [line.label for line in panel.lines] != [panel.title]:
        _name_lines(axes, panel.lines)


def _shared_x(axes: Axes, stack: Stack, *, whole: bool) -> None:
    values = [value for panel in stack.panels for line in panel.lines for value in line.x]
    low, high = min(values), max(values)
    room = 0.03 * (high - low) or 0.5
    axes.set_xlim(low - room, high + room)
    axes.xaxis.set_major_locator(MaxNLocator(6 if whole else 4, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _y_ticks(axes: Axes, *, log: bool) -> None:
    if log:
        low, high = axes.get_ylim()
        axes.yaxis.set_major_locator(FixedLocator(log_ticks(low, high)))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.yaxis.set_major_locator(MaxNLocator(4, min_n_ticks=2))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}".replace("-", "\N{MINUS SIGN}")))


def _name_lines(axes: Axes, lines: Sequence[Line]) -> None:
    """Names at the right, at the height where each line ends, moved apart where they would touch."""
    axes.autoscale_view()
    bounds = axes.get_window_extent()
    ends = [float(axes.transData.transform((line.x[-1], line.y[-1]))[1]) for line in lines]
    places = spread_apart(ends, 13.0, bounds.y0, bounds.y1)
    for line, place in zip(lines, places, strict=True):
        height = (place - bounds.y0) / (bounds.y1 - bounds.y0)
        axes.text(
            1.03, height, plain(line.label, 25), transform=axes.transAxes, va="center_baseline", fontsize=10,
            color=light(line.colour), fontweight="bold" if line.heavy else "normal",
        )  # fmt: skip
