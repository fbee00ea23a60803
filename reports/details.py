"""The longer tables of a run page: latency in full, stages, classes, layers, settings."""

from collections.abc import Sequence
from typing import Any

from reports.cells import all_cells, in_order, latency_in, teacher_of
from reports.record import Record, StageCard
from reports.tables import MISSING, Field, Table, latency_field, model_field
from reports.words import MINUS, duration, number, significant


def latencies(record: Record) -> Table:
    """One row a cell, one column a model: p50 / p95 and the ratio to the teacher in that cell."""
    teacher = teacher_of(record)
    cards = [card for card in in_order(record) if card.speed and card.speed.latency]
    rows = []
    for cell in all_cells(record):
        fields = [Field(text=cell.runtime), Field(text=cell.precision)]
        fields += [Field(text=str(value), order=value) for value in (cell.batch, cell.length, cell.threads)]
        for card in cards:
            found = latency_in(card, cell)
            reference = latency_in(teacher, cell) if teacher and card is not teacher else None
            text = f"{significant(found.p50_ms)} / {significant(found.p95_ms)}" if found else ""
            fields.append(latency_field(found, reference, text))
        rows.append(tuple(fields))
    return Table(
        headings=("runtime", "precision", "batch", "length", "threads", *(card.name for card in cards)),
        rows=tuple(rows),
        texts=2,
    )


def stages(record: Record, colours: dict[str, str]) -> Table:
    """Every finished stage of every model."""
    rows = [
        (
            model_field(card, colours),
            Field(text=stage.name, under=stage.description),
            Field(text=", ".join(_weights(stage)) or MISSING),
            Field(text=duration(stage.seconds), order=stage.seconds),
            Field(text=f"{stage.steps:,}", order=stage.steps),
            Field(text=significant(stage.epochs), order=stage.epochs),
            Field(text=f"{stage.examples:,}", order=stage.examples),
            Field(text=f"{stage.learning_rate:.2g}", order=stage.learning_rate),
            Field(text="last")
            if stage.selected_step is None
            else Field(text=f"step {stage.selected_step:,}", order=stage.selected_step),
        )
        for card in in_order(record)
        for stage in card.stages
    ]
    headings = (
        "model",
        "stage",
        "loss terms and weights",
        "time",
        "steps",
        "epochs",
        "examples",
        "peak rate",
        "weights kept",
    )
    return Table(headings=headings, rows=tuple(rows), texts=3)


def transfers(record: Record) -> Table:
    """The sets of examples without labels."""
    rows = tuple((Field(text=card.name), Field(text=card.origin), _count(card.rows)) for card in record.transfer)
    return Table(headings=("set", "where from", "examples"), rows=rows, texts=2)


def augmented(record: Record) -> Table:
    """A few training texts, each with texts that were made from it."""
    rows = [
        (Field(text=example.text, under=example.pair or ""), Field(text=version))
        for card in record.transfer
        for example in card.preview
        for version in example.versions
    ]
    return Table(headings=("original", "version"), rows=tuple(rows), texts=2)


def _count(number: int) -> Field:
    return Field(text=f"{number:,}", order=number)


def _weights(stage: StageCard) -> list[str]:
    """ "0.5 hard", and for what is scheduled "soft from 1 to 0, linear"."""
    constant = {term: weight for term, weight in stage.losses.items() if term not in stage.schedules}
    words = [f"{number(weight, 2).rstrip('0').rstrip('.')} {term}" for term, weight in constant.items()]
    return words + [f"{name} from {change}" for name, change in stage.schedules.items()]


def classes(record: Record) -> Table:
    """F1 of each class and model, with precision and recall below."""
    cards = [card for card in in_order(record) if card.quality.per_class]
    counts = {row.label: row.n for card in cards for row in card.quality.per_class}
    found = [{row.label: row for row in card.quality.per_class} for card in cards]
    rows = []
    for label, count in counts.items():
        fields = [Field(text=label), Field(text=f"{count:,}", order=count)]
        for by_label in found:
            row = by_label.get(label)
            if row is None:
                fields.append(Field())
                continue
            both = f"{number(100 * row.precision, 1)} / {number(100 * row.recall, 1)}"
            fields.append(Field(text=number(100 * row.f1, 1), under=both, order=row.f1))
        rows.append(tuple(fields))
    return Table(headings=("class", "n", *(card.name for card in cards)), rows=tuple(rows))


def layers(record: Record, colours: dict[str, str]) -> Table:
    """Distance of every mapped layer."""
    rows = [
        (
            model_field(card, colours),
            Field(text="embeddings" if row.student_layer == 0 else str(row.student_layer), order=row.student_layer),
            Field(text="embeddings" if row.teacher_layer == 0 else str(row.teacher_layer), order=row.teacher_layer),
            Field() if row.hidden is None else Field(text=number(row.hidden, 3), order=row.hidden),
            Field() if row.attention is None else Field(text=number(row.attention, 3), order=row.attention),
        )
        for card in in_order(record)
        for row in card.layer_distances
    ]
    hidden = f"hidden states, 1 {MINUS} CKA"
    return Table(headings=("model", "layer", "teacher layer", hidden, "attention, JS (nats)"), rows=tuple(rows))


def pairs(value: Any) -> Table:
    """Nested settings as one dotted name and one value a row."""
    rows = tuple((Field(text=name), Field(text=text)) for name, text in _flat(value, ""))
    return Table(headings=("name", "value"), rows=rows, texts=2)


def _flat(value: Any, name: str) -> list[tuple[str, str]]:
    if isinstance(value, dict) and value:
        return [pair for key, inner in value.items() for pair in _flat(inner, f"{name}.{key}" if name else str(key))]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [(name, ", ".join(str(item) for item in value) or MISSING)]
    return [(name, MISSING if value is None or value == {} else str(value))]
