"""The table of a chain: what is left of quality after each step, and how much smaller and faster it has become."""

from collections.abc import Callable

from reports.cells import doubt
from reports.record import Compression, CompressionRow, Latency
from reports.tables import Field, Table, cost_field, latency_field
from reports.words import TIMES, compared, metric_style, percent, scaled, significant, times

Key = tuple[int, int]
"""Batch and length."""


def compression_table(chain: Compression, metric: str, *, higher_is_better: bool) -> Table:
    """One row a step and runtime; below each figure how it stands to the first row's."""
    first, keys = chain.rows[0], cells_of(chain)
    style = metric_style(metric)
    headings = ("step", "runtime", style.heading, "retained", "parameters", "on disk")
    rows = tuple(
        (
            _step_field(row),
            Field(text=f"{row.runtime} {row.precision}", under="; ".join(row.notes)),
            Field(text=style.value(row.value), order=row.value),
            _retained_field(row, higher_is_better=higher_is_better),
            _cost(row, first, lambda entry: entry.parameters, "", "fewer"),
            _cost(row, first, lambda entry: entry.bytes_on_disk, "B", "smaller"),
            *(_time(row, first, key) for key in keys),
        )
        for row in chain.rows
    )
    speeds = (f"{batch} {TIMES} {length}, ms" for batch, length in keys)
    return Table(headings=(*headings, *speeds), rows=rows, texts=2).without_empty_columns()


def _step_field(row: CompressionRow) -> Field:
    marker = {"reference": "square", "baseline": "ring"}.get(row.role, "circle")
    return Field(text=row.step, marker=marker, colour="muted" if row.role == "baseline" else "")


def _retained_field(row: CompressionRow, *, higher_is_better: bool) -> Field:
    if row.retained is None:
        return Field()
    text = percent(row.retained) if higher_is_better else f"{row.retained:.2f}{TIMES}"
    return Field(text=text, order=row.retained)


def _cost(
    row: CompressionRow, first: CompressionRow, of: Callable[[CompressionRow], float], unit: str, less: str
) -> Field:
    return cost_field(of(row), scaled(of(row), unit), of(first) if row is not first else 0, less)


def cells_of(chain: Compression) -> list[Key]:
    """Batch and length of every latency column."""
    return sorted({(cell.batch, cell.length) for row in chain.rows for cell in row.latency})


def time_of(row: CompressionRow, key: Key) -> Latency | None:
    """The row's figure in a column."""
    return next((cell for cell in row.latency if (cell.batch, cell.length) == key), None)


def _time(row: CompressionRow, first: CompressionRow, key: Key) -> Field:
    found = time_of(row, key)
    reference = time_of(first, key) if row is not first else None
    return latency_field(found, reference, significant(found.p50_ms) if found else "")


def best_baseline(chain: Compression, key: Key) -> CompressionRow | None:
    """The fastest row of the reference itself: a ratio to its slowest runtime alone would mislead."""
    rows = [row for row in chain.rows if row.role != "chain" and time_of(row, key) is not None]
    return min(rows, key=lambda row: _milliseconds(row, key), default=None)


def pick(chain: Compression, *, higher_is_better: bool) -> CompressionRow:
    """Of the last model's forms the fastest, by milliseconds at the smallest batch and length that can be relied on, of
    those that lose no more than `max_drop` against its fp32 form in torch; without such times, the last artifact.
    """
    fp32 = [place for place, row in enumerate(chain.rows) if _is_torch_fp32(row) and row.role != "baseline"]
    place = fp32[-1] if fp32 else 0
    forms = [row for row in chain.rows[place:] if row.role == "chain"] or [chain.rows[-1]]
    sign = 1 if higher_is_better else -1
    good = [row for row in forms if sign * (chain.rows[place].value - row.value) <= chain.max_drop]
    timed = [row for key in cells_of(chain)[:1] for row in good if time_of(row, key) and not doubt(time_of(row, key))]
    if timed:
        return min(timed, key=lambda row: _milliseconds(row, cells_of(chain)[0]))
    # The same folder in another precision is no artifact of its own.
    artifacts = {(row.folder, row.runtime): row for row in reversed(good or forms)}
    return next(iter(artifacts.values()))


def _is_torch_fp32(row: CompressionRow) -> bool:
    return row.runtime.startswith("torch") and row.precision == "fp32"


def verdict(chain: Compression, *, higher_is_better: bool) -> str:
    """One sentence about the row of `pick`: what it keeps, and how it stands to the first row and the best baseline."""
    first, last = chain.rows[0], pick(chain, higher_is_better=higher_is_better)
    parts = [_kept(first, last, higher_is_better=higher_is_better)]
    sizes = first.bytes_on_disk, last.bytes_on_disk
    parts.append("is " + compared(*sizes, less="smaller on disk", more="larger on disk", same="as large on disk"))
    parts += [_faster(chain, last, key) for key in cells_of(chain)[:2]]
    return f"{last.step} ({last.runtime} {last.precision}) {', '.join(filter(None, parts))}."


def _kept(first: CompressionRow, last: CompressionRow, *, higher_is_better: bool) -> str:
    if last.retained is None:
        return ""
    whose = f"the {first.step} model's" if first.step == "unchanged" else f"the {first.step}'s"
    if higher_is_better:
        return f"keeps {percent(last.retained)} of {whose} score"
    return f"has {last.retained:.2f}{TIMES} {whose} error"


def _faster(chain: Compression, last: CompressionRow, key: Key) -> str:
    """The speed of a row as a multiple of the first row's and of the best baseline's, if all can be relied on."""
    first, base = chain.rows[0], best_baseline(chain, key)
    if base is None or time_of(last, key) is None:
        return ""
    reason = doubt(*(time_of(row, key) for row in (last, first, base)))
    if reason:
        return f"at {key[0]} {TIMES} {key[1]} was timed in a way that is not reliable ({reason})"
    ratios = [(first, f"{first.runtime} {first.precision}")]
    ratios += [(base, f"its {base.runtime} {base.precision}")] if base is not first else []
    told = " and ".join(
        f"{times(_milliseconds(row, key) / _milliseconds(last, key))} the speed of {words}" for row, words in ratios
    )
    return f"at {key[0]} {TIMES} {key[1]} has {told}"


def _milliseconds(row: CompressionRow, key: Key) -> float:
    found = time_of(row, key)
    if found is None:
        raise KeyError(key)
    return found.p50_ms
