"""What the page of an ablation of pretraining is given to show."""

from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from common.ablation_record import AblationRecord, Row, Study
from reports import details
from reports.ablation_charts import curves, differences, row_colours, scores
from reports.ablation_words import notices, verdict
from reports.pages import date_of
from reports.panels import draw_stack
from reports.strips import draw_strip
from reports.tables import MISSING, Field, Table, interval_field
from reports.words import constant_answer, duration, metric_style, number, scaled


@dataclass(frozen=True, kw_only=True)
class StudyView:
    """One study as the template takes it."""

    study: Study
    verdicts: tuple[tuple[str, str, str], ...]
    """Row's name, colour and sentence."""
    table: Table
    strips: tuple[Markup, ...]
    curves: tuple[Markup, ...]


def ablation_page(record: AblationRecord) -> dict[str, Any]:
    """Everything that ablation.html.j2 names."""
    return {
        "record": record,
        "date": date_of(record),
        "metric": metric_style(record.task.metric),
        "notes": notices(record),
        "views": [study_view(study, record) for study in record.studies],
        "seeds": _seeds(record),
        "wall": duration(record.provenance.wall_seconds),
        "memory": scaled(record.provenance.memory_bytes, "B"),
        "settings": details.pairs(record.provenance.config),
        "versions": details.pairs(record.provenance.versions),
    }


def study_view(study: Study, record: AblationRecord) -> StudyView:
    colours = row_colours(study)
    strips = [strip for strip in (scores(study, record), differences(study, record)) if strip]
    return StudyView(
        study=study,
        verdicts=tuple((row.name, colours[row.name], verdict(row, study, record)) for row in study.rows),
        table=_table(study, record),
        strips=tuple(Markup(draw_strip(strip)) for strip in strips),
        curves=tuple(Markup(draw_stack(stack)) for stack in curves(study)),
    )


_FIGURES = {
    "mlm_loss": "MLM loss",
    "mlm_accuracy": "MLM accuracy, %",
    "nsp_accuracy": "NSP accuracy, %",
    "ltr_loss": "LTR loss",
    "ltr_accuracy": "LTR accuracy, %",
}
"""Held-out figures that have a column."""


def _table(study: Study, record: AblationRecord) -> Table:
    """One row a variant: the score, its difference, what pretraining took and reached."""
    metric = record.task.metric
    judged = (study.title.lower(), metric_style(metric).heading, f"against {study.rows[0].name}", "seeds")
    headings = (*judged, "steps", "tokens", "pretraining", "learning the task", "parameters", *_FIGURES.values())
    colours = row_colours(study)
    rows = [
        (
            Field(text=row.name, under=row.description, colour=colours[row.name], marker="circle"),
            _score(row, metric),
            interval_field(row.against_first, metric),
            Field(text=str(len(row.by_seed)), order=len(row.by_seed)),
            *_cost(row),
            *(_figure(row, name) for name in _FIGURES),
        )
        for row in study.rows
    ]
    guess = constant_answer(record.task.kind)
    constant = Field(text=metric_style(metric).value(record.task.majority), order=record.task.majority)
    rows.append((Field(text=guess, marker="none"), constant, *(Field() for _ in headings[2:])))
    return Table(headings=headings, rows=tuple(rows)).without_empty_columns()


def _score(row: Row, metric: str) -> Field:
    style = metric_style(metric)
    spread = "" if row.spread is None else f"\N{PLUS-MINUS SIGN} {style.value(row.spread)}"
    return Field(text=style.value(row.value), under=spread, order=row.value)


def _cost(row: Row) -> tuple[Field, ...]:
    made = row.pretraining
    return (
        Field(text=f"{made.steps:,.0f}", order=made.steps),
        Field(text=scaled(made.tokens), order=made.tokens),
        Field(text=duration(made.seconds), order=made.seconds),
        Field(text=duration(row.task_seconds), order=row.task_seconds),
        Field(text=scaled(made.parameters), order=made.parameters),
    )


def _figure(row: Row, name: str) -> Field:
    """A held-out figure; below it what needs no learning, where that is known."""
    value = row.pretraining.held_out.get(name)
    if value is None:
        return Field()
    if name.endswith("_loss"):
        return Field(text=number(value, 2), under=f"{number(row.pretraining.unigram_loss, 2)} without", order=value)
    majority = row.pretraining.held_out.get(name.replace("_accuracy", "_majority"))
    under = "" if majority is None else f"{number(100 * majority, 1)} without"
    return Field(text=number(100 * value, 1), under=under, order=value)


def _seeds(record: AblationRecord) -> Table:
    """Every seed's score and all metrics of every row."""
    names = list(dict.fromkeys(name for study in record.studies for row in study.rows for name in row.metrics))
    style = metric_style(record.task.metric)
    rows = tuple(
        (
            Field(text=f"{study.title}: {row.name}"),
            *(_metric(row, name) for name in names),
            Field(text=", ".join(f"{seed}: {style.value(value)}" for seed, value in row.by_seed.items()) or MISSING),
        )
        for study in record.studies
        for row in study.rows
    )
    headings = ("row", *(metric_style(name).heading for name in names), f"{style.label} by seed")
    return Table(headings=headings, rows=rows)


def _metric(row: Row, name: str) -> Field:
    value = row.metrics.get(name)
    return Field() if value is None else Field(text=metric_style(name).value(value), order=value)
