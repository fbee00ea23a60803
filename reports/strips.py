"""Rows side by side on one axis: a mark a row, with a bar for what is uncertain and small dots for seeds."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from reports.svg import inline, new_figure, plain, style
from reports.theme import light

_WIDTH, _ROW = 370.0, 27.0


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One row."""

    label: str
    value: float
    low: float
    high: float
    """Ends of the bar; the value where there is none."""
    dots: tuple[float, ...]
    colour: str
    detail: str
    """What hovering shows."""


@dataclass(frozen=True, kw_only=True)
class Strip:
    title: str
    axis: str
    marks: tuple[Mark, ...]
    """From top to bottom."""
    zero: bool = False
    """Draw a line at 0."""


def draw_strip(strip: Strip) -> str:
    """As one SVG element."""
    above, below = 40.0, 44.0
    height = above + _ROW * len(strip.marks) + below
    with style():
        figure = new_figure(_WIDTH, height)
        longest = max(len(plain(mark.label, 26)) for mark in strip.marks)
        left = min(30 + 6.4 * longest, 190.0)
        area = (left / _WIDTH, below / height, (_WIDTH - left - 14) / _WIDTH, _ROW * len(strip.marks) / height)
        axes = figure.add_axes(area)
        figure.text(0, 1 - 14 / height, plain(strip.title, 60), fontsize=12, va="baseline")
        for place, mark in enumerate(strip.marks):
            _draw_mark(axes, mark, place)
        if strip.zero:
            axes.axvline(0, color=light("muted"), linewidth=1.2, linestyle=(0, (4, 3)), zorder=2)
        _axes(axes, strip)
        tips = {f"mark-{place}": mark.detail for place, mark in enumerate(strip.marks)}
        return inline(figure, f"{strip.title}: {strip.axis} of {_names(strip.marks)}", tips=tips)


def _names(marks: Sequence[Mark]) -> str:
    return ", ".join(mark.label for mark in marks)


def _draw_mark(axes: Axes, mark: Mark, place: int) -> None:
    colour = light(mark.colour)
    # Seeds lie below the bar, which would hide them.
    axes.plot(mark.dots, [place + 0.3] * len(mark.dots), "o", markersize=3.5, color=colour, alpha=0.5, zorder=3)
    if mark.high > mark.low:
        axes.errorbar(
            mark.value, place, xerr=[[mark.value - mark.low], [mark.high - mark.value]],
            color=colour, linewidth=1.6, capsize=3.5, zorder=4,
        )  # fmt: skip
    axes.plot(mark.value, place, "o", markersize=8, color=colour, gid=f"mark-{place}", zorder=5)


def _axes(axes: Axes, strip: Strip) -> None:
    axes.set_ylim(len(strip.marks) - 0.5, -0.5)
    axes.set_yticks(range(len(strip.marks)), [plain(mark.label, 26) for mark in strip.marks])
    for label, mark in zip(axes.get_yticklabels(), strip.marks, strict=True):
        label.set_color(light(mark.colour))
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.08)
    axes.xaxis.set_major_locator(MaxNLocator(5, min_n_ticks=3))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.6g}".replace("-", "\N{MINUS SIGN}")))
    axes.set_xlabel(strip.axis)
