"""What the charts of quality against cost show, computed from records before any drawing."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from reports.cells import Cell, doubt, in_order, latency_in, measured_card
from reports.pareto import pareto_front
from reports.record import ModelCard, Record
from reports.theme import series_colours
from reports.words import MetricStyle, metric_style, significant


@dataclass(frozen=True, kw_only=True)
class Point:
    label: str
    detail: str
    """What hovering shows."""
    cost: float
    quality: float
    spread: float | None
    colour: str
    marker: str
    """ "square" teacher, "circle" student, "ring" twin, "triangle" baseline."""


@dataclass(frozen=True, kw_only=True)
class Scatter:
    """Quality against a cost."""

    title: str
    cost_label: str
    quality_label: str
    higher_is_better: bool
    points: tuple[Point, ...]
    on_front: tuple[bool, ...]
    levels: tuple[tuple[str, float], ...]
    """Name and quality of models whose cost isn't measured: drawn as level lines."""


Cost = Callable[[ModelCard], float | None]


def latency_cost(cell: Cell) -> Cost:
    """Median milliseconds a batch in that cell."""

    def cost(card: ModelCard) -> float | None:
        latency = latency_in(card, cell)
        return latency.p50_ms if latency else None

    return cost


def unreliable(records: Sequence[Record], cell: Cell) -> bool:
    """Whether a figure of that cell can't be relied on."""
    return any(doubt(latency_in(card, cell)) for record in records for card in record.models)


def disk_cost(card: ModelCard) -> float | None:
    """Megabytes of the weights file."""
    return card.size.bytes_on_disk / 1e6 if card.size else None


def scatter(
    records: Sequence[Record], cost: Cost, *, title: str, cost_label: str, colours: dict[str, str]
) -> Scatter | None:
    """All models of records of one task and metric; None where no cost is known."""
    shown = metric_style(records[0].task.metric)
    higher = records[0].task.higher_is_better
    points: list[Point] = []
    levels: dict[str, float] = {}
    for record in records:
        for card in in_order(record):
            measured = measured_card(record, card)
            value = cost(measured)
            if value is None or value <= 0:
                levels.setdefault(card.name, _shown(card.quality.value, shown))
            else:
                borrowed = f", {measured.name}'s cost" if measured is not card else ""
                detail = f"{card.name} in {record.name}: {shown.value(card.quality.value)} at {significant(value)}"
                points.append(_point(card, detail + borrowed, value, shown, colours))
    if not points:
        return None
    front = pareto_front([(point.cost, point.quality) for point in points], higher_is_better=higher)
    return Scatter(
        title=title,
        cost_label=cost_label,
        quality_label=shown.heading,
        higher_is_better=higher,
        points=tuple(points),
        on_front=tuple(front),
        levels=tuple(levels.items()),
    )


def _shown(value: float, style: MetricStyle) -> float:
    return 100 * value if style.percent else value


def _point(card: ModelCard, detail: str, cost: float, style: MetricStyle, colours: dict[str, str]) -> Point:
    return Point(
        label=card.name,
        detail=detail,
        cost=cost,
        quality=_shown(card.quality.value, style),
        spread=None if card.quality.spread is None else _shown(card.quality.spread, style),
        colour=model_colour(card, colours),
        marker={"teacher": "square", "student": "circle", "twin": "ring"}.get(card.role, "triangle"),
    )


def model_colours(records: Iterable[Record]) -> dict[str, str]:
    """Student name to colour; twins share their student's."""
    cards = [card for record in records for card in record.models]
    names = [card.name for card in cards if card.role == "student"] + [card.twin_of for card in cards if card.twin_of]
    return series_colours(names)


def model_colour(card: ModelCard, colours: dict[str, str]) -> str:
    if card.role == "teacher":
        return "ink"
    return colours.get(card.twin_of or card.name, "muted")
