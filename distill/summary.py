"""The last lines of a run: what a smaller model costs."""

from reports.record import ModelCard, Record


def closing_table(record: Record) -> str:
    """Every model with quality, retained share, size and batch-1 latency, and their ratios to the teacher's."""
    teacher = record.models[0]
    rows: list[tuple[str, ...]] = [
        ("model", record.task.metric, "±", "kept", "parameters", "MB", "ms (1 x 16)", "speed")
    ]
    rows += [_row(card, teacher) for card in record.models]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def _row(card: ModelCard, teacher: ModelCard) -> tuple[str, ...]:
    quality, size = card.quality, card.size
    own, reference = _latency(card), _latency(teacher)
    return (
        card.name,
        f"{quality.value:.4f}",
        "" if quality.spread is None else f"{quality.spread:.4f}",
        "" if quality.retained is None else f"{quality.retained:.1%}",
        "" if size is None else f"{size.parameters:,}",
        "" if size is None else f"{size.bytes_on_disk / 1e6:.1f}",
        "" if own is None else f"{own:.2f}",
        "" if own is None or reference is None else f"{reference / own:.2f}x",
    )


def _latency(card: ModelCard) -> float | None:
    """p50 in milliseconds at batch 1, length 16, one thread."""
    cells = card.speed.latency if card.speed is not None else ()
    return next((cell.p50_ms for cell in cells if (cell.batch, cell.length, cell.threads) == (1, 16, 1)), None)
