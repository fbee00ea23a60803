"""What the charts of training and of layers show, computed from records before any drawing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reports.cells import in_order
from reports.points import model_colour
from reports.record import Curve, ModelCard, Record, StageCard
from reports.theme import series_colours

CURVE_POINTS = 160
"""At most so many points a line: more can't be told apart on a page, and all would make it heavy."""


@dataclass(frozen=True, kw_only=True)
class Line:
    label: str
    colour: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    heavy: bool = False
    dashed: bool = False


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One pair of axes."""

    title: str
    lines: tuple[Line, ...]
    log: bool = False
    from_zero: bool = False
    marked: float | None = None
    """An x to mark, such as the step whose weights were kept."""


@dataclass(frozen=True, kw_only=True)
class Stack:
    """Panels above one another with a shared x axis."""

    title: str
    x_label: str
    panels: tuple[Panel, ...]


def curve_stack(card: ModelCard, stage: str, colours: dict[str, str]) -> Stack | None:
    """Loss terms, selection metric, gradient norms, layer map and learning rate of a stage, each on its own axes."""
    kept = next((entry.selected_step for entry in card.stages if entry.name == stage), None)
    groups: dict[str, list[Line]] = {}
    for curve in card.curves:
        if curve.stage == stage and curve.steps:
            steps, values = thin(curve.steps, curve.values)
            heading = curve_kind(curve.name)
            total = is_total(curve.name)
            # The norm of a term's gradient has the term's colour.
            colour = colours.get(curve.name.removeprefix("gradient norm "), "ink" if total else "muted")
            line = Line(label="total" if total else curve.name, colour=colour, x=steps, y=values, heavy=total)
            groups.setdefault(heading, []).append(line)
    panels = tuple(
        Panel(
            title=heading,
            lines=tuple(groups[heading]),
            log=heading in ("loss", "gradient norm") and _wants_log(groups[heading]),
            marked=float(kept) if kept is not None and heading == "selection metric" else None,
        )
        for heading in ("loss", "selection metric", "gradient norm", "teacher layer", "learning rate")
        if heading in groups
    )
    return Stack(title=f"{card.name}: {stage}", x_label="step", panels=panels) if panels else None


def stages_of(card: ModelCard) -> list[str]:
    """Stage names in the order they ran, also those that have curves only."""
    named: Iterable[StageCard | Curve] = (*card.stages, *card.curves)
    return list(dict.fromkeys(entry.name if isinstance(entry, StageCard) else entry.stage for entry in named))


def curve_kind(name: str) -> str:
    """Which axes a series belongs on, by its name: whatever is nothing else is a loss term."""
    words = name.lower().replace("_", " ")
    for kind in ("selection metric", "gradient norm", "teacher layer", "learning rate"):
        if kind in words:
            return kind
    return "loss"


def term_colours(record: Record) -> dict[str, str]:
    """The same colour for a loss term in every stage of every model."""
    names = [curve.name for card in record.models for curve in card.curves if curve_kind(curve.name) == "loss"]
    return series_colours([name for name in names if not is_total(name)], usual=())


def is_total(name: str) -> bool:
    """The weighted sum of a stage's terms."""
    return name in ("loss", "total")


def _wants_log(lines: Sequence[Line]) -> bool:
    values = [value for line in lines for value in line.y]
    return min(values) > 0 and max(values) > 8 * min(values)


def thin(
    steps: Sequence[float], values: Sequence[float], limit: int = CURVE_POINTS
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """At most `limit` points: means over equal runs of neighbours, at the run's last step."""
    size = -(-len(values) // limit)
    runs = [slice(start, start + size) for start in range(0, len(values), size)]
    return (
        tuple(float(steps[run][-1]) for run in runs),
        tuple(sum(values[run]) / len(values[run]) for run in runs),
    )


def layer_stacks(record: Record, colours: dict[str, str]) -> list[Stack]:
    """Distance of each student layer to its teacher layer: one chart for hidden states, one for attention."""
    stacks = []
    measures = {"hidden": "hidden states, 1 \N{MINUS SIGN} CKA", "attention": "attention, JS divergence (nats)"}
    for field, title in measures.items():
        lines = tuple(line for card in in_order(record) if (line := _layer_line(card, field, colours)).x)
        if lines:
            panel = Panel(title=title, lines=lines, from_zero=True)
            stacks.append(Stack(title="Distance to the teacher", x_label="teacher layer", panels=(panel,)))
    return stacks


def _layer_line(card: ModelCard, field: str, colours: dict[str, str]) -> Line:
    found = [(row.teacher_layer, getattr(row, field)) for row in card.layer_distances]
    known = [(layer, value) for layer, value in found if value is not None]
    return Line(
        label=card.name,
        colour=model_colour(card, colours),
        x=tuple(float(layer) for layer, _ in known),
        y=tuple(value for _, value in known),
        dashed=card.role == "twin",
    )
