"""What the page of a pretraining is given to show, and its row on the index."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from common.pretraining_record import PretrainingRecord
from reports import details
from reports.curves import Line, Panel, Stack, curve_kind, is_total, thin
from reports.panels import draw_stack
from reports.tables import Field, Table
from reports.theme import series_colours
from reports.words import duration, number, percent, scaled

PREDICTED = {
    "mlm": "masked pieces (MLM)",
    "nsp": "next sentence (NSP)",
    "sop": "sentence order (SOP)",
    "generator": "the generator's masked pieces",
    "rtd": "replaced pieces (RTD)",
    "ltr": "next pieces (LTR)",
}
"""What an objective's terms predict, in the order of the page."""

_OF_PIECES = ("mlm", "generator", "ltr")
"""Terms whose loss without context is that of the pieces' frequencies."""

MADE_OF = {
    "documents_learned": "documents learned from",
    "documents_held_out": "documents held out",
    "pieces_learned": "pieces of text learned from",
    "vocabulary": "pieces in the vocabulary",
    "cased": "upper case and accents kept",
    "random_pair_share": "pairs with a random second text",
}
"""Facts on the text, by what they are called on the page."""


def pretraining_page(record: PretrainingRecord) -> dict[str, Any]:
    """Everything that pretraining.html.j2 names."""
    facts = record.facts
    return {
        "record": record,
        "objective": record.settings.get("objective", ""),
        "start": record.settings.get("from"),
        "took": duration(facts["seconds"]),
        "pace": f"{facts['tokens'] / max(facts['seconds'], 1e-9):,.0f}",
        "parameters": scaled(facts["parameters"]),
        "tokens": scaled(facts["tokens"]),
        "notes": list(facts.get("notes", ())),
        "best": facts.get("best_step"),
        "figures": figures(record),
        "held_out": [Markup(draw_stack(stack)) for stack in held_out_stacks(record)],
        "training": [Markup(draw_stack(stack)) for stack in training_stacks(record)],
        "text": details.pairs({words: _in_words(facts[name]) for name, words in MADE_OF.items() if name in facts}),
        "settings": details.pairs(dict(record.settings)),
        "sources": details.pairs(facts.get("sources", {})),
    }


def _in_words(value: bool | int | float) -> str:
    """A count, a share in percent, or yes and no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else percent(value)


def figures(record: PretrainingRecord) -> Table:
    """Held-out figures after the last step: a row for what is predicted."""
    rows = [
        (Field(text=title), *_loss(term, record), *_accuracy(term, record))
        for term, title in PREDICTED.items()
        if f"{term}_loss" in record.facts["held_out"]
    ]
    headings = ("held out", "loss (nats)", "loss without context", "accuracy, %", "accuracy without context, %")
    return Table(headings=headings, rows=tuple(rows)).without_empty_columns()


def _loss(term: str, record: PretrainingRecord) -> tuple[Field, Field]:
    value, unigram = record.facts["held_out"][f"{term}_loss"], record.facts["unigram_loss"]
    without = Field(text=number(unigram, 2), order=unigram) if term in _OF_PIECES else Field()
    return Field(text=number(value, 2), order=value), without


def _accuracy(term: str, record: PretrainingRecord) -> tuple[Field, Field]:
    found = (record.facts["held_out"].get(f"{term}_{name}") for name in ("accuracy", "majority"))
    value, majority = (
        Field() if share is None else Field(text=number(100 * share, 1), order=100 * share) for share in found
    )
    return value, majority


def held_out_stacks(record: PretrainingRecord) -> list[Stack]:
    """Accuracy and loss on held-out text over the steps, one chart for what is predicted; dashed: without context."""
    series = {entry.name: entry for entry in record.held_out if entry.steps}
    stacks = []
    for term, title in PREDICTED.items():
        panels = []
        for kind, heading, factor in (("accuracy", "accuracy, %", 100.0), ("loss", "loss (nats)", 1.0)):
            entry = series.get(f"{term}_{kind}")
            if entry is None:
                continue
            x, y = tuple(map(float, entry.steps)), tuple(factor * value for value in entry.values)
            lines = [Line(label="held out", colour="series-0", x=x, y=y, heavy=True)]
            baseline = _without(term, kind, record)
            if baseline is not None:
                level = (factor * baseline,) * len(x)
                lines.append(Line(label="without context", colour="muted", x=x, y=level, dashed=True))
            marked = record.facts.get("best_step")
            panels.append(Panel(title=heading, lines=tuple(lines), marked=None if marked is None else float(marked)))
        if panels:
            stacks.append(Stack(title=f"Held out: {title}", x_label="step", panels=tuple(panels)))
    return stacks


def _without(term: str, kind: str, record: PretrainingRecord) -> float | None:
    """What is reached without any context."""
    if kind == "loss":
        return float(record.facts["unigram_loss"]) if term in _OF_PIECES else None
    majority = record.facts["held_out"].get(f"{term}_majority")
    return None if majority is None else float(majority)


def training_stacks(record: PretrainingRecord) -> list[Stack]:
    """Loss terms, gradient norm and learning rate over the steps, as they were while training."""
    kinds: dict[str, list[Line]] = {}
    entries = [entry for entry in record.training if entry.steps and curve_kind(entry.name) != "selection metric"]
    colours = series_colours([entry.name for entry in entries if curve_kind(entry.name) == "loss"], usual=())
    for entry in entries:
        kind, total = curve_kind(entry.name), is_total(entry.name)
        x, y = thin(entry.steps, entry.values)
        colour = "ink" if total else colours.get(entry.name, "muted")
        line = Line(label="total" if total else entry.name, colour=colour, x=x, y=y, heavy=total)
        kinds.setdefault(kind, []).append(line)
    if len(kinds.get("loss", ())) == 2:
        # One term alone is the total.
        kinds["loss"] = [line for line in kinds["loss"] if line.label != "total"]
    order = ("loss", "gradient norm", "learning rate")
    panels = tuple(Panel(title=kind, lines=tuple(kinds[kind])) for kind in order if kind in kinds)
    return [Stack(title="While training", x_label="step", panels=panels)] if panels else []


def pretrainings_table(records: Mapping[str, PretrainingRecord]) -> Table:
    """One row a pretraining, by name."""
    rows = [
        (
            Field(text=record.name, link=folder),
            Field(text=str(record.settings.get("from") or record.settings.get("size", ""))),
            Field(text=str(record.settings.get("objective", ""))),
            Field(text=str(record.facts["corpus"])),
            Field(text=scaled(record.facts["tokens"]), order=record.facts["tokens"]),
            Field(text=duration(record.facts["seconds"]), order=record.facts["seconds"]),
            *(_share(record, f"{term}_accuracy") for term in ("mlm", "nsp")),
        )
        for folder, record in sorted(records.items())
    ]
    headings = (
        "run",
        "size or start",
        "objective",
        "corpus",
        "tokens",
        "training",
        "MLM accuracy, %",
        "NSP accuracy, %",
    )
    table = Table(headings=headings, rows=tuple(rows), texts=4)
    return table.without_empty_columns() if rows else table


def _share(record: PretrainingRecord, name: str) -> Field:
    value = record.facts["held_out"].get(name)
    return Field() if value is None else Field(text=number(100 * value, 1), order=100 * value)
