"""What the page over all runs is given to show."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from common.ablation_record import AblationRecord
from common.pretraining_record import PretrainingRecord
from common.study_record import StudyRecord
from common.words import counted
from reports import tables
from reports.cells import doubt, headline_cells, latency_in, students_of, teacher_of
from reports.notices import notices
from reports.pages import date_of, scatters
from reports.points import model_colours
from reports.pretraining_page import pretrainings_table
from reports.record import ModelCard, Record
from reports.study_page import studies_table
from reports.words import compared, metric_style, scaled


def index_page(
    records: Mapping[str, Record],
    broken: Sequence[str],
    ablations: Mapping[str, AblationRecord],
    studies: Mapping[str, StudyRecord],
    pretrainings: Mapping[str, PretrainingRecord],
) -> dict[str, Any]:
    """Everything that index.html.j2 names."""
    colours = model_colours(records.values())
    newest = sorted(records, key=lambda name: (records[name].provenance.created, name), reverse=True)
    groups: dict[tuple[str, str, str, str], list[Record]] = {}
    for name in newest:
        groups.setdefault(_comparable(records[name]), []).append(records[name])
    rows = [row for name in newest for row in _index_rows(name, records[name], colours)]
    headings = ("run", "task", "student", "date", "teacher", "quality", "retained", "on disk", "speed, batch 1")
    return {
        "runs": len(records),
        "broken": broken,
        "table": tables.Table(headings=headings, rows=tuple(rows), texts=4),
        "ablations": _ablations(ablations),
        "studies": studies_table(studies),
        "pretrainings": pretrainings_table(pretrainings),
        "groups": [group for group in map(partial(_group, colours=colours), groups.values()) if group["scatters"]],
    }


def _ablations(records: Mapping[str, AblationRecord]) -> tables.Table:
    """One row an ablation of pretraining, newest first."""
    newest = sorted(records, key=lambda name: (records[name].provenance.created, name), reverse=True)
    rows = [
        (
            tables.Field(text=record.name, link=name),
            tables.Field(text=", ".join(study.title.lower() for study in record.studies)),
            tables.Field(text=record.task.name, under=metric_style(record.task.metric).heading),
            tables.Field(text=date_of(record), tone="date"),
            tables.Field(text=str(record.seeds), order=record.seeds),
        )
        for name in newest
        for record in [records[name]]
    ]
    return tables.Table(headings=("run", "studies", "task", "date", "seeds"), rows=tuple(rows), texts=4)


def _group(records: Sequence[Record], *, colours: dict[str, str]) -> dict[str, Any]:
    """The combined charts of runs that may be compared."""
    task, cpu = records[0].task, records[0].provenance.cpu
    return {
        "task": task.name,
        "data": task.fingerprint,
        "cpu": cpu,
        "runs": len(records),
        "scatters": scatters(records, colours),
    }


def _comparable(record: Record) -> tuple[str, str, str, str]:
    """Runs share a chart only where the same rows were answered, and were timed on the same kind of machine."""
    return record.task.name, record.task.metric, record.task.fingerprint, record.provenance.cpu


def _index_rows(folder: str, record: Record, colours: dict[str, str]) -> list[tuple[tables.Field, ...]]:
    style, teacher = metric_style(record.task.metric), teacher_of(record)
    counts = {"failure": len(record.failures), "note": len(record.notes) + len(notices(record))}
    known = ", ".join(counted(count, name) for name, count in counts.items() if count)
    run = tables.Field(text=record.name, link=folder, under=known)
    task = tables.Field(text=record.task.name, under=style.heading)
    date = tables.Field(text=date_of(record), tone="date")
    reference = (
        tables.Field(text=style.value(teacher.quality.value), order=teacher.quality.value)
        if teacher
        else tables.Field()
    )
    rows: list[tuple[tables.Field, ...]] = [
        (
            run,
            task,
            tables.model_field(student, colours, shape=True),
            date,
            reference,
            tables.Field(text=style.value(student.quality.value), order=student.quality.value),
            tables.retained_field(student, record),
            _size_ratio(student, teacher),
            _speed_ratio(record, student, teacher),
        )
        for student in students_of(record)
    ]
    return rows or [(run, task, tables.Field(), date, reference, *(tables.Field() for _ in range(4)))]


def _size_ratio(student: ModelCard, teacher: ModelCard | None) -> tables.Field:
    if teacher is None or student.size is None or teacher.size is None:
        return tables.Field()
    own, reference = student.size.bytes_on_disk, teacher.size.bytes_on_disk
    text = compared(reference, own, less="smaller", more="larger", same="the same")
    return tables.Field(text=text, under=scaled(own, "B"), order=own, tone="bad flat" if "larger" in text else "")


def _speed_ratio(record: Record, student: ModelCard, teacher: ModelCard | None) -> tables.Field:
    cells = headline_cells(record)
    own, reference = (latency_in(card, cells[0]) if card and cells else None for card in (student, teacher))
    if own is None or reference is None:
        return tables.Field()
    if doubt(own, reference):
        return tables.Field(text="not reliable", under=cells[0].short, tone="bad flat")
    text = compared(reference.p50_ms, own.p50_ms, less="faster", more="slower", same="as fast")
    return tables.Field(
        text=text,
        under=cells[0].short,
        order=reference.p50_ms / own.p50_ms,
        tone="bad flat" if "slower" in text else "",
    )
