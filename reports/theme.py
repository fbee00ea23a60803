"""Colours of pages and charts, for a light and a dark screen, and which model gets which.

The series follow Okabe and Ito's palette (Color Universal Design, 2008), which the common colour blindnesses keep
apart, darkened on light ground and lightened on dark ground for contrast.
"""

from collections.abc import Iterable

COLOURS: dict[str, tuple[str, str]] = {
    "ink": ("#1c2430", "#e6eaf0"),
    "muted": ("#5d6875", "#9ba7b4"),
    "line": ("#d5dae0", "#343c46"),
    "series-0": ("#0068a8", "#5cb8ef"),
    "series-1": ("#c44e00", "#ff9653"),
    "series-2": ("#00805f", "#35cba3"),
    "series-3": ("#a8447f", "#eb9fca"),
    "series-4": ("#866500", "#e3bd35"),
    "series-5": ("#5a49b0", "#b0a4f8"),
}
"""Name to (light, dark). The light one stands in the drawing until `svg.inline` puts a CSS variable in its place."""

SERIES = tuple(name for name in COLOURS if name.startswith("series-"))

_USUAL = ("tiny", "distil", "albert")


def series_colours(names: Iterable[str], *, usual: tuple[str, ...] = _USUAL) -> dict[str, str]:
    """A colour name for each distinct name: the usual students keep theirs on every page, others take what is free.

    >>> series_colours(["other", "distil"])
    {'other': 'series-3', 'distil': 'series-1'}
    """
    distinct = list(dict.fromkeys(names))
    fixed = dict(zip(usual, SERIES, strict=False))
    free = [colour for colour in SERIES if colour not in fixed.values()] or list(SERIES)
    others = [name for name in distinct if name not in fixed]
    chosen = fixed | {name: free[index % len(free)] for index, name in enumerate(others)}
    return {name: chosen[name] for name in distinct}


def css_variables(*, dark: bool) -> str:
    """`--ink: #1c2430; ...` for one of the two grounds."""
    return " ".join(f"--{name}: {pair[dark]};" for name, pair in COLOURS.items())


def light(name: str) -> str:
    """The colour to draw with."""
    return COLOURS[name][0]
