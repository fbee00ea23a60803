"""What the charts of an ablation show: scores, differences to the first row, and held-out figures over pretraining."""

from collections.abc import Mapping

from common.ablation_record import AblationRecord, Row, Study
from reports.curves import Line, Panel, Stack
from reports.strips import Mark, Strip
from reports.theme import series_colours
from reports.words import MetricStyle, metric_style

HELD_OUT = {
    "masked pieces": {"mlm_loss": "loss (nats)", "mlm_accuracy": "accuracy"},
    "next sentence": {"nsp_accuracy": "accuracy"},
    "next pieces": {"ltr_loss": "loss (nats)", "ltr_accuracy": "accuracy"},
}
"""Held-out figures that have a curve, by what is predicted, in this order."""


def row_colours(study: Study) -> dict[str, str]:
    return series_colours([row.name for row in study.rows], usual=())


def scores(study: Study, record: AblationRecord) -> Strip:
    """The score of each row, its seeds, and the standard deviation over them."""
    style, colours = metric_style(record.task.metric), row_colours(study)
    marks = []
    for row in study.rows:
        spread = row.spread or 0.0
        shown, low, high = (_shown(value, style) for value in (row.value, row.value - spread, row.value + spread))
        dots = tuple(_shown(value, style) for value in row.by_seed.values()) if len(row.by_seed) > 1 else ()
        around = "" if row.spread is None else f" \N{PLUS-MINUS SIGN} {style.value(row.spread)}"
        detail = f"{row.name}: {style.value(row.value)}{around}"
        marks.append(
            Mark(label=row.name, value=shown, low=low, high=high, dots=dots, colour=colours[row.name], detail=detail)
        )
    return Strip(title=f"{study.title}: score on {record.task.name}", axis=style.heading, marks=tuple(marks))


def differences(study: Study, record: AblationRecord) -> Strip | None:
    """The difference of each further row to the first, with its interval; None where there is none."""
    style, colours = metric_style(record.task.metric), row_colours(study)
    marks = tuple(
        Mark(
            label=row.name,
            value=_shown(interval.difference, style),
            low=_shown(interval.low, style),
            high=_shown(interval.high, style),
            dots=(),
            colour=colours[row.name],
            detail=f"{row.name}: {style.signed(interval.difference)} ({style.interval(interval)})",
        )
        for row in study.rows
        for interval in [row.against_first]
        if interval is not None
    )
    if not marks:
        return None
    unit = "points" if style.percent else style.label
    return Strip(
        title=f"{study.title}: against {study.rows[0].name}", axis=f"difference, {unit}", marks=marks, zero=True
    )


def curves(study: Study) -> list[Stack]:
    """Held-out figures over the steps of pretraining, first seed; rows that share an encoder share a line."""
    stacks = []
    for predicted, figures in HELD_OUT.items():
        lines = {title: _lines(study, name) for name, title in figures.items()}
        panels = tuple(Panel(title=title, lines=found) for title, found in lines.items() if found)
        if panels:
            stacks.append(Stack(title=f"{study.title}: {predicted}, held out", x_label="step", panels=panels))
    return stacks


def _lines(study: Study, name: str) -> tuple[Line, ...]:
    colours = row_colours(study)
    return tuple(
        Line(
            label=rows[0].name if len(rows) == 1 else "all rows",
            colour=colours[rows[0].name],
            x=tuple(float(step) for step in series.steps),
            y=series.values,
        )
        for rows in by_encoder(study).values()
        for series in rows[0].pretraining.curves
        if series.name == name and series.steps
    )


def by_encoder(study: Study) -> Mapping[str, list[Row]]:
    """The rows of each encoder."""
    found: dict[str, list[Row]] = {}
    for row in study.rows:
        found.setdefault(row.pretraining.encoder, []).append(row)
    return found


def _shown(value: float, style: MetricStyle) -> float:
    return 100 * value if style.percent else value
