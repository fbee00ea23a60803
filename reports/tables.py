"""The tables of a page as plain data: every number already written as a reader sees it."""

from dataclasses import dataclass, replace

from common.words import counted
from reports.cells import Cell, doubt, headline_cells, in_order, latency_in, measured_card, teacher_of
from reports.points import model_colour
from reports.record import Interval, Latency, ModelCard, Quality, Record
from reports.twins import twin_effects
from reports.words import compared, constant_answer, metric_style, p_value, percent, scaled, significant

MISSING = "\N{EM DASH}"


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of a table."""

    text: str = MISSING
    under: str = ""
    """A second, smaller line."""
    order: float | None = None
    """What sorting goes by; the text where it is None."""
    tone: str = ""
    """ "bad" marks what is worse than the teacher where one would hope for better; "date" is never broken."""
    colour: str = ""
    marker: str = ""
    link: str = ""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Headings (texts first, numbers right-aligned after `texts` columns) and rows."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Field, ...], ...]
    texts: int = 1

    def without_empty_columns(self) -> "Table":
        """What no model has a figure for is no column."""
        kept = [index for index, _ in enumerate(self.headings) if any(row[index] != Field() for row in self.rows)]
        rows = tuple(tuple(row[index] for index in kept) for row in self.rows)
        return replace(self, headings=tuple(self.headings[index] for index in kept), rows=rows)


def summary(record: Record, colours: dict[str, str]) -> Table:
    """One row a model: quality, size and speed, each with its ratio to the teacher."""
    style = metric_style(record.task.metric)
    cells = headline_cells(record)
    headings = ("model", style.heading, "against teacher", "retained", "parameters", "on disk", "FLOPs")
    rows = [
        (
            model_field(card, colours, shape=True),
            _value_field(card.quality, record.task.metric),
            _against_field(card.quality, record.task.metric),
            retained_field(card, record),
            *_size_fields(card, teacher_of(record)),
            *(_latency_field(record, card, cell) for cell in cells),
            _memory_field(record, card),
        )
        for card in in_order(record)
    ]
    if record.task.majority is not None:
        guess = f"always the {constant_answer(record.task.kind)}"
        constant = Field(text=style.value(record.task.majority), order=record.task.majority)
        rows.append((Field(text=guess, marker="none"), constant, *(Field() for _ in range(6 + len(cells)))))
    speeds = (f"latency p50, {cell.short}" for cell in cells)
    return Table(headings=(*headings, *speeds, "peak memory"), rows=tuple(rows)).without_empty_columns()


def model_field(card: ModelCard, colours: dict[str, str], *, shape: bool = False) -> Field:
    marker = {"teacher": "square", "student": "circle", "twin": "ring"}.get(card.role, "triangle")
    return Field(text=card.name, under=_shape(card) if shape else "", colour=model_colour(card, colours), marker=marker)


def _shape(card: ModelCard) -> str:
    """The architecture in one line: "bert, 4 layers of 312"."""
    family, layers, hidden = (card.architecture.get(key) for key in ("family", "layers", "hidden"))
    parts = [str(family)] if family else []
    if layers and hidden:
        parts.append(f"{counted(layers, 'layer')} of {hidden}")
    return ", ".join(parts)


def _value_field(quality: Quality, metric: str) -> Field:
    style = metric_style(metric)
    spread = "" if quality.spread is None else f"\N{PLUS-MINUS SIGN} {style.value(quality.spread)}"
    return Field(text=style.value(quality.value), under=spread, order=quality.value)


def _against_field(quality: Quality, metric: str) -> Field:
    return interval_field(quality.against_teacher, metric)


def interval_field(interval: Interval | None, metric: str) -> Field:
    """The difference, and below it the interval."""
    if interval is None:
        return Field()
    style = metric_style(metric)
    return Field(text=style.signed(interval.difference), under=style.interval(interval), order=interval.difference)


def retained_field(card: ModelCard, record: Record) -> Field:
    if card.quality.retained is None:
        return Field()
    if not record.task.higher_is_better:
        text = f"{card.quality.retained:.2f}\N{MULTIPLICATION SIGN}"
        return Field(text=text, under="the teacher's error", order=card.quality.retained)
    return Field(text=percent(card.quality.retained), order=card.quality.retained)


def _size_fields(card: ModelCard, teacher: ModelCard | None) -> tuple[Field, Field, Field]:
    size, reference = card.size, teacher.size if teacher and teacher is not card else None
    if size is None:
        return Field(), Field(), Field()
    pairs = [
        (size.parameters, "", reference.parameters if reference else 0),
        (size.bytes_on_disk, "B", reference.bytes_on_disk if reference else 0),
        (size.flops, "", reference.flops if reference else 0),
    ]
    first, second, third = (
        cost_field(value, scaled(value, unit), other, "fewer" if not unit else "smaller")
        for value, unit, other in pairs
    )
    return first, second, third


def cost_field(value: float, text: str, teacher: float, less: str) -> Field:
    more = {"fewer": "more", "smaller": "larger", "faster": "slower"}.get(less, "more")
    under = compared(teacher, value, less=less, more=more, same="as fast" if less == "faster" else "the same")
    return Field(text=text, under=under, order=value, tone="bad" if under.endswith(more) else "")


def _latency_field(record: Record, card: ModelCard, cell: Cell) -> Field:
    found, teacher = latency_in(card, cell), teacher_of(record)
    measured = measured_card(record, card)
    if found is None and latency_in(measured, cell):
        return Field(text=f"as {measured.name}")
    reference = latency_in(teacher, cell) if teacher and teacher is not card else None
    return latency_field(found, reference, f"{significant(found.p50_ms)} ms" if found else "")


def latency_field(found: Latency | None, reference: Latency | None, text: str) -> Field:
    """`text`, and below it the ratio to the teacher's, or that one of the two is no figure to build on."""
    if found is None:
        return Field()
    if doubt(found, reference):
        return Field(text=text, under="not reliable", order=found.p50_ms, tone="bad")
    return cost_field(found.p50_ms, text, reference.p50_ms if reference else 0, "faster")


def _memory_field(record: Record, card: ModelCard) -> Field:
    teacher = teacher_of(record)
    if card.speed is None or card.speed.peak_memory_bytes is None:
        measured = measured_card(record, card)
        known = measured.speed and measured.speed.peak_memory_bytes is not None
        return Field(text=f"as {measured.name}") if known else Field()
    reference = teacher.speed.peak_memory_bytes if teacher and teacher is not card and teacher.speed else None
    value = card.speed.peak_memory_bytes
    return cost_field(value, scaled(value, "B"), reference or 0, "less")


def metrics(record: Record, colours: dict[str, str]) -> Table:
    """Every metric, every seed, and McNemar's p."""
    names = list(dict.fromkeys(name for card in record.models for name in card.quality.metrics))
    style = metric_style(record.task.metric)
    rows = []
    for card in in_order(record):
        values = [card.quality.metrics.get(name) for name in names]
        seeds = ", ".join(f"{seed}: {style.value(value)}" for seed, value in card.quality.by_seed.items())
        p = card.quality.mcnemar_p
        rows.append(
            (
                model_field(card, colours),
                *(
                    Field() if value is None else Field(text=metric_style(name).value(value), order=value)
                    for name, value in zip(names, values, strict=True)
                ),
                Field() if p is None else Field(text=p_value(p), order=p),
                Field(text=seeds or MISSING),
            )
        )
    headings = ("model", *(metric_style(name).heading for name in names), "McNemar p", f"{style.label} by seed")
    return Table(headings=headings, rows=tuple(rows)).without_empty_columns()


def twins(record: Record, colours: dict[str, str]) -> Table:
    """Each student beside the same student without distillation, and what the difference says."""
    style = metric_style(record.task.metric)
    rows = [
        (
            model_field(effect.student, colours),
            Field(text=effect.verdict),
            _value_field(effect.student.quality, record.task.metric),
            _value_field(effect.twin.quality, record.task.metric),
            interval_field(effect.interval, record.task.metric)
            if effect.interval
            else Field(text=style.signed(effect.difference), under="no interval", order=effect.difference),
        )
        for effect in twin_effects(record)
    ]
    return Table(headings=("student", "verdict", "distilled", "without", "difference"), rows=tuple(rows), texts=2)
