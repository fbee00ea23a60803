"""From a matplotlib figure to SVG that stands inside a page: same bytes each time, colours and font from the page."""

import html
import io
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from reports.theme import COLOURS, light

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 11.0,
    "text.parse_math": False,
    "axes.unicode_minus": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": light("muted"),
    "axes.labelcolor": light("muted"),
    "axes.labelsize": 11.0,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.grid.which": "major",
    "grid.color": light("line"),
    "grid.linewidth": 0.7,
    "text.color": light("ink"),
    "xtick.color": light("muted"),
    "ytick.color": light("muted"),
    "xtick.labelsize": 10.0,
    "ytick.labelsize": 10.0,
    "xtick.major.size": 3.0,
    "ytick.major.size": 0.0,
    "xtick.minor.size": 0.0,
    "ytick.minor.size": 0.0,
    "lines.linewidth": 1.7,
    "lines.solid_capstyle": "round",
}


@contextmanager
def style() -> Iterator[None]:
    """Draw inside this: nothing of the user's matplotlib settings has a say, and none of them is changed."""
    with mpl.rc_context(), warnings.catch_warnings():
        # Names in scripts that the measuring font lacks are drawn by the browser's fonts.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)  # type: ignore[arg-type]
        yield


def new_figure(width: float, height: float) -> Figure:
    """A transparent figure of so many CSS pixels (72 to matplotlib's inch)."""
    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    figure.patch.set_alpha(0)
    FigureCanvasAgg(figure)  # measures texts; drawing is SVG's
    return figure


def plain(name: str, limit: int = 40) -> str:
    """A name fit for a drawing: one line, printable, cut when long."""
    text = "".join(character if character.isprintable() else " " for character in name).strip()
    return text if len(text) <= limit else text[: limit - 1] + "\N{HORIZONTAL ELLIPSIS}"


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers between low and high: of the coarsest set that gives three or more, six at most.

    >>> [round(tick, 6) for tick in log_ticks(0.9, 120.0)]
    [1.0, 10.0, 100.0]
    """
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks: list[float] = []
    for steps in (
        (1,),
        (1, 3),
        (1, 2, 5),
        (1, 1.5, 2, 3, 5, 7),
        tuple(range(1, 10)),
        tuple(np.arange(1, 10, 0.5)),
        tuple(np.arange(1, 10, 0.1)),
    ):
        ticks = [
            float(step * 10.0**decade) for decade in decades for step in steps if low <= step * 10.0**decade <= high
        ]
        if len(ticks) >= 3:
            break
    return ticks[:: -(-len(ticks) // 6) or 1]


def inline(figure: Figure, description: str, *, tips: Mapping[str, str] | None = None) -> str:
    """The figure as one <svg> element for an HTML page.

    Args:
        figure: drawn inside `style`.
        tips: what hovering over an artist shows, by its gid.
        description: what the chart shows, for those who don't see it; also keeps ids apart between charts of a page.
    """
    with mpl.rc_context({"svg.hashsalt": description}):
        stream = io.StringIO()
        FigureCanvasSVG(figure).print_svg(stream, metadata={"Date": None})
    text = stream.getvalue()
    width, height = (value * 72 for value in figure.get_size_inches())
    body = text[text.index(">", text.index("<svg")) + 1 :]
    # The style block would hold for the whole page; the page's own style sheet says the same for charts only.
    body = re.sub(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", "", body, flags=re.DOTALL)
    opening = (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{html.escape(description)}" '
        f'style="max-width: {width * 1.25:g}px">'
    )
    for gid, tip in (tips or {}).items():
        body = body.replace(f'<g id="{gid}">', f"<g><title>{html.escape(tip)}</title>")
    return opening + _own_colours(_drop_idle_ids(body)).strip()


def _drop_idle_ids(body: str) -> str:
    """Keep only the ids that something refers to: the others would be double on a page of several charts."""
    used = set(re.findall(r"#([\w-]+)", body))
    return re.sub(r' id="([^"<>]*)"', lambda match: match[0] if match[1] in used else "", body)


def _own_colours(body: str) -> str:
    """Inside tags, a CSS variable for each colour of the theme, and the page's font for matplotlib's."""
    variables = {pair[0]: f"var(--{name})" for name, pair in COLOURS.items()}
    colours = re.compile("|".join(variables))

    def restyle(match: re.Match[str]) -> str:
        tag = colours.sub(lambda colour: variables[colour[0]], match[0])
        return re.sub(r" ?font-family: [^;\"]*;| transform=\"rotate\(-0 [^\"]*\"", "", tag)

    return re.sub(r"<[^>]*>", restyle, body)
