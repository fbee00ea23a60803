"""What the page of a study is given to show."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from common.study_record import FinalRow, StudyRecord, TrialRow
from reports import details
from reports.cells import doubt_of
from reports.pareto import pareto_front
from reports.plots import draw_scatter
from reports.points import Point, Scatter
from reports.strips import Mark, Strip, draw_strip
from reports.study_slices import slices
from reports.tables import Field, Table, interval_field
from reports.words import duration, metric_style, number, percent, scaled, significant

COSTS = {
    "latency_ms": ("Latency, batch 1, one thread", "median ms a text"),
    "size_mb": ("Size on disk", "MB of weights"),
}


def study_page(record: StudyRecord) -> dict[str, Any]:
    """Everything that study.html.j2 names."""
    return {
        "record": record,
        "date": record.provenance.created[:16].replace("T", " "),
        "metric": metric_style(record.metric),
        "verdict": verdict(record),
        "states": states(record),
        "scatters": [Markup(draw_scatter(chart)) for chart in scatters(record) if chart],
        "importances": Markup(draw_strip(importances(record))) if record.importances else None,
        "slices": [Markup(drawn) for drawn in slices(record)],
        "finals": finals(record),
        "final_seeds": final_seeds(record),
        "trials": trials(record),
        "space": details.pairs(record.space),
        "limits": details.pairs(record.limits) if record.limits else None,
        "wall": duration(record.provenance.wall_seconds),
        "memory": scaled(record.provenance.memory_bytes, "B"),
        "settings": details.pairs(record.provenance.config),
        "versions": details.pairs(record.provenance.versions),
    }


def chosen_trial(record: StudyRecord) -> TrialRow | None:
    return next((row for row in record.trials if row.number == record.chosen), None)


def verdict(record: StudyRecord) -> str:
    """What the study found, claiming no more than was compared."""
    chosen, style = chosen_trial(record), metric_style(record.metric)
    if chosen is None or chosen.score is None:
        return "No finished trial is within the limits."
    costs = ""
    if chosen.latency_ms is not None and chosen.size_mb is not None:
        costs = f" at {significant(chosen.latency_ms)} ms and {significant(chosen.size_mb)} MB"
    found = f"Chosen: trial {chosen.number}, {style.label} {style.value(chosen.score)} on the selection split{costs}."
    # The trial chosen may be a later one than those that were compared in full.
    if all(row.trial != chosen.number for row in record.finals):
        found += " It is the best of several on that split, so its score is too high; --confirm tests it."
    return " ".join([found, *(_final_words(row, record) for row in record.finals if row.against_preset)])


def _final_words(row: FinalRow, record: StudyRecord) -> str:
    interval, style = row.against_preset, metric_style(record.metric)
    assert interval is not None
    preset = record.finals[0]
    level = f"{100 * interval.level:g} % interval {style.interval(interval)}"
    reason = _doubt(row, preset)
    speed = f", at {number(preset.latency_ms / row.latency_ms, 2)} times the preset's speed"
    if reason:
        speed = f"; the times of it or of the preset are not reliable ({reason})"
    if record.target == "teacher":
        speed = ""
    if interval.low <= 0 <= interval.high:
        return f"In full, {row.name} shows no difference to the preset ({level}){speed}."
    better = (interval.difference > 0) == record.higher_is_better
    size = style.difference(interval.difference)
    alone = "" if final_seeds(record) > 1 else ", with this one seed"
    return f"In full, {row.name} is {size} {'better' if better else 'worse'} than the preset{alone} ({level}){speed}."


def _doubt(*rows: FinalRow) -> str:
    """Why the latencies of these rows can't be relied on; empty where they can, or where older records do not tell."""
    known = ((row.latency_ms, row.p95_ms, row.repeats) for row in rows)
    return doubt_of(*((p50, p95, repeats) for p50, p95, repeats in known if p95 is not None and repeats is not None))


def final_seeds(record: StudyRecord) -> int:
    """With how many the rows were trained in full."""
    return max((len(row.by_seed) for row in record.finals), default=1)


def states(record: StudyRecord) -> dict[str, int]:
    """State to the number of trials in it."""
    found: dict[str, int] = {}
    for row in record.trials:
        found[row.state] = found.get(row.state, 0) + 1
    return found


def scatters(record: StudyRecord) -> list[Scatter | None]:
    """Finished trials: the metric against each cost; those that another beats on both are small."""
    return [_scatter(record, name) for name in COSTS]


def _scatter(record: StudyRecord, cost: str) -> Scatter | None:
    rows = [row for row in record.trials if row.score is not None and getattr(row, cost) is not None]
    if not rows:
        return None
    style = metric_style(record.metric)
    points = tuple(_point(row, record, float(getattr(row, cost))) for row in rows)
    front = pareto_front([(point.cost, point.quality) for point in points], higher_is_better=record.higher_is_better)
    title, label = COSTS[cost]
    teacher = record.teacher_score
    return Scatter(
        title=title,
        cost_label=label,
        quality_label=style.heading,
        higher_is_better=record.higher_is_better,
        points=points,
        on_front=tuple(front),
        levels=() if teacher is None else (("teacher", teacher * (100 if style.percent else 1)),),
    )


def _point(row: TrialRow, record: StudyRecord, cost: float) -> Point:
    style, chosen = metric_style(record.metric), row.number == record.chosen
    assert row.score is not None
    settings = ", ".join(f"{name} {value}" for name, value in row.settings.items())
    return Point(
        label=f"trial {row.number}" if chosen else str(row.number),
        detail=f"trial {row.number}: {style.value(row.score)} at {significant(cost)}; {settings}",
        cost=cost,
        quality=row.score * (100 if style.percent else 1),
        spread=None,
        colour="series-1" if chosen else "series-0" if row.within else "muted",
        marker="square" if chosen else "circle" if row.within else "triangle",
    )


def importances(record: StudyRecord) -> Strip:
    """What the score of finished trials depends on."""
    marks = tuple(
        Mark(
            label=name, value=100 * share, low=0.0, high=100 * share, dots=(), colour="series-0",
            detail=f"{name}: {percent(share)}",
        )
        for name, share in sorted(record.importances.items(), key=lambda entry: -entry[1])
    )  # fmt: skip
    return Strip(title="What the score depends on", axis="share, %", marks=marks)


def trials(record: StudyRecord) -> Table:
    """Every trial with all of its settings."""
    style = metric_style(record.metric)
    parts = [name for name in record.space if any(name in row.settings for row in record.trials)]
    rungs = " / ".join(percent(share) for share in record.shares)
    # All fine-tunings of a teacher cost the same.
    costs = () if record.target == "teacher" else ("ms", "MB")
    headings = ("trial", "state", style.heading, f"after {rungs}", *costs, "time", *parts)
    rows = tuple(
        (
            Field(text=str(row.number) + (" (chosen)" if row.number == record.chosen else ""), order=row.number),
            Field(text=row.state, under=row.reason or ("on the front" if row.on_front else "")),
            Field() if row.score is None else Field(text=style.value(row.score), order=row.score),
            Field(text=", ".join(map(style.value, row.rungs))) if row.rungs else Field(),
            *(_number(value) for value in (row.latency_ms, row.size_mb)[: len(costs)]),
            Field() if row.seconds is None else Field(text=duration(row.seconds), order=row.seconds),
            *(_setting(row.settings.get(name)) for name in parts),
        )
        for row in record.trials
    )
    return Table(headings=headings, rows=rows, texts=2)


def _number(value: float | None) -> Field:
    return Field() if value is None else Field(text=significant(value), order=value)


def _setting(value: object) -> Field:
    return Field() if value is None else _number(value) if isinstance(value, float) else Field(text=str(value))


def finals(record: StudyRecord) -> Table:
    """The preset and the best trials, trained in full with several seeds."""
    style = metric_style(record.metric)
    headings = ("student", f"{style.heading}, evaluate", "against the preset", "ms", "MB", "seeds")
    rows = tuple(
        (
            Field(text=row.name),
            Field(
                text=style.value(row.value),
                under="" if row.spread is None else f"\N{PLUS-MINUS SIGN} {style.value(row.spread)}",
                order=row.value,
            ),
            interval_field(row.against_preset, record.metric),
            _latency(row),
            _number(row.size_mb),
            Field(text=str(len(row.by_seed)), order=len(row.by_seed)),
        )
        for row in record.finals
    )
    return Table(headings=headings, rows=rows)


def _latency(row: FinalRow) -> Field:
    field = _number(row.latency_ms)
    return replace(field, under="not reliable", tone="bad") if _doubt(row) else field


def studies_table(records: Mapping[str, StudyRecord]) -> Table:
    """One row a study, newest first: for the index."""
    newest = sorted(records, key=lambda name: (records[name].provenance.created, name), reverse=True)
    rows = []
    for name in newest:
        record = records[name]
        chosen, style = chosen_trial(record), metric_style(record.metric)
        score = chosen.score if chosen else None
        rows.append(
            (
                Field(text=record.name, link=name),
                Field(text=record.student),
                Field(text=record.task, under=style.heading),
                Field(text=record.provenance.created[:16].replace("T", " "), tone="date"),
                Field(text=str(len(record.trials)), order=len(record.trials)),
                Field() if score is None else Field(text=style.value(score), under="selection split", order=score),
                _number(chosen.latency_ms if chosen else None),
                _number(chosen.size_mb if chosen else None),
            )
        )
    headings = ("study", "student", "task", "date", "trials", "chosen: score", "ms", "MB")
    return Table(headings=headings, rows=tuple(rows), texts=4)
