"""The last lines of a run: what a smaller model costs."""

from common.columns import aligned
from reports.cells import doubt, teacher_of
from reports.record import Latency, ModelCard, Record
from reports.words import scaled

_LONGEST_NAME = 30


def closing_table(record: Record) -> str:
    """Every model with quality, retained share, size and batch-1 latency, and their ratios to the teacher's.

    At most 100 columns wide; a column that is empty for every model is left out. A twin has no latency of its own.
    """
    kept = "kept" if record.task.higher_is_better else "x teacher"
    heading = ("model", _in_two(record.task.metric), "±", kept, "parameters", "on disk", "ms (1 x 16)", "speed")
    rows = [_row(card, teacher_of(record), record.task.higher_is_better) for card in record.models]
    top, bottom = zip(*(name if isinstance(name, tuple) else ("", name) for name in heading), strict=True)
    table = aligned([row for row in (top, bottom) if any(row)], rows)
    doubtful = any(row[-1].endswith("?") or row[-2].endswith("?") for row in rows)
    return "\n".join([table, *([_DOUBT] if doubtful else [])])


_DOUBT = "?  not reliable: measured on a busy machine (p95 is more than 3 x p50) or too few times"


def _in_two(metric: str) -> tuple[str, str] | str:
    """A long metric's name on two lines."""
    first, joint, second = metric.partition("_")
    return (first + joint, second) if len(metric) > 10 and second else metric


def _row(card: ModelCard, teacher: ModelCard | None, higher_is_better: bool) -> tuple[str, ...]:
    quality, size = card.quality, card.size
    share = quality.retained
    name = card.name if len(card.name) <= _LONGEST_NAME else f"{card.name[: _LONGEST_NAME - 1]}…"
    return (
        name,
        f"{quality.value:.4f}",
        "" if quality.spread is None else f"{quality.spread:.4f}",
        "" if share is None else f"{share:.1%}" if higher_is_better else f"{share:.2f}x",
        "" if size is None else scaled(size.parameters),
        "" if size is None else scaled(size.bytes_on_disk, "B"),
        *_speed(_latency(card), None if teacher is None else _latency(teacher)),
    )


def _speed(own: Latency | None, reference: Latency | None) -> tuple[str, str]:
    """Milliseconds, and how many times as fast as the teacher."""
    if own is None:
        return "", ""
    time = f"{own.p50_ms:.2f}{'?' if doubt(own) else ''}"
    if reference is None:
        return time, ""
    return time, f"{reference.p50_ms / own.p50_ms:.2f}x{'?' if doubt(own, reference) else ''}"


def _latency(card: ModelCard) -> Latency | None:
    """At batch 1, length 16, one thread."""
    cells = card.speed.latency if card.speed is not None else ()
    return next((cell for cell in cells if (cell.batch, cell.length, cell.threads) == (1, 16, 1)), None)
