"""What each page is given to show: tables, sentences and finished charts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from common.ablation_record import AblationRecord
from reports import details, tables
from reports.cells import headline_cells, seeds_of, teacher_of
from reports.compress_table import compression_table, verdict
from reports.curves import curve_stack, layer_stacks, stages_of, term_colours
from reports.notices import notices
from reports.panels import draw_stack
from reports.plots import draw_scatter
from reports.points import disk_cost, latency_cost, model_colour, model_colours, scatter, unreliable
from reports.record import Compression, ModelCard, Record
from reports.verdicts import headlines, remarks
from reports.words import duration, metric_style, scaled


@dataclass(frozen=True, kw_only=True)
class Group:
    """Charts under a heading of their own."""

    title: str
    colour: str
    charts: tuple[Markup, ...]


def run_page(record: Record) -> dict[str, Any]:
    """Everything that run.html.j2 names."""
    colours = model_colours([record])
    cells = headline_cells(record)
    return {
        "record": record,
        "date": date_of(record),
        "metric": metric_style(record.task.metric),
        "cells": cells,
        "headlines": [(line, model_colour(line.model, colours)) for line in headlines(record)],
        "notes": [*record.notes, *notices(record)],
        "remarks": [(line, model_colour(line.model, colours)) for line in remarks(record)],
        "quality": (teacher_of(record) or record.models[0]).quality,
        "seeds": seeds_of(record),
        "taught": teacher_of(record) is not None,
        "sized": any(card.size for card in record.models),
        "level": next(
            (100 * card.quality.against_teacher.level for card in record.models if card.quality.against_teacher), 95
        ),
        "wall": duration(record.provenance.wall_seconds),
        "resumed": bool(record.provenance.config.get("resume")) or "--resume" in record.provenance.command.split(),
        "memory": scaled(record.provenance.memory_bytes, "B"),
        "summary": tables.summary(record, colours),
        "unsteady": any(unreliable([record], cell) for cell in cells),
        "chains": [_chain(chain, record) for chain in record.compression],
        "metrics": tables.metrics(record, colours),
        "twins": tables.twins(record, colours),
        "latencies": details.latencies(record),
        "stages": details.stages(record, colours),
        "transfers": details.transfers(record),
        "augmented": details.augmented(record),
        "classes": details.classes(record),
        "layers": details.layers(record, colours),
        "models": [(card, details.pairs(_model_facts(card))) for card in record.models],
        "settings": details.pairs(record.provenance.config),
        "versions": details.pairs(record.provenance.versions),
        "sources": details.pairs(record.task.sources),
        "scatters": scatters([record], colours),
        "curves": _curves(record, colours),
        "layer_charts": [_drawn(draw_stack(stack, markers=True)) for stack in layer_stacks(record, colours)],
    }


def _chain(chain: Compression, record: Record) -> tuple[str, tables.Table, str]:
    """A chain's name, table and verdict."""
    better = record.task.higher_is_better
    table = compression_table(chain, record.task.metric, higher_is_better=better)
    return chain.model, table, verdict(chain, higher_is_better=better)


def scatters(records: Sequence[Record], colours: dict[str, str]) -> list[Markup]:
    """Quality against both latencies and against size; the cells are those of the first record that was timed."""
    charts = [
        scatter(
            records,
            latency_cost(cell),
            title=f"Latency, {cell.short}{' (not reliable)' if unreliable(records, cell) else ''}",
            cost_label="median ms a batch",
            colours=colours,
        )
        for cell in next(filter(None, map(headline_cells, records)), [])
    ]
    charts.append(scatter(records, disk_cost, title="Size on disk", cost_label="MB of weights", colours=colours))
    return [_drawn(draw_scatter(chart)) for chart in charts if chart]


def _curves(record: Record, colours: dict[str, str]) -> list[Group]:
    terms = term_colours(record)
    groups = []
    for card in record.models:
        stacks = [curve_stack(card, stage, terms) for stage in stages_of(card)]
        charts = tuple(_drawn(draw_stack(stack)) for stack in stacks if stack)
        if charts:
            groups.append(Group(title=card.name, colour=model_colour(card, colours), charts=charts))
    return groups


def _drawn(svg: str) -> Markup:
    """Our own SVG, its names escaped where it was drawn."""
    return Markup(svg)


def _model_facts(card: ModelCard) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "role": card.role,
        "twin of": card.twin_of,
        "first weights": card.start,
        "folder": card.folder,
    }
    facts = {name: value for name, value in facts.items() if value}
    if card.size:
        facts |= {
            "parameters": f"{card.size.parameters:,}",
            "of them embeddings": f"{card.size.embedding_parameters:,}",
        }
        facts |= {"bytes on disk": f"{card.size.bytes_on_disk:,}", "FLOPs, 128 tokens": f"{card.size.flops:,}"}
    return (
        facts
        | ({"architecture": card.architecture} if card.architecture else {})
        | ({"notes": card.notes} if card.notes else {})
    )


def date_of(record: Record | AblationRecord) -> str:
    """To the minute, UTC, as in the record."""
    return record.provenance.created[:16].replace("T", " ")
