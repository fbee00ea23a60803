"""The last lines of a chain: step by step, what is left and what it costs."""

from common.columns import aligned
from reports.cells import doubt
from reports.compress_table import cells_of, time_of, verdict
from reports.record import Compression, CompressionRow
from reports.words import scaled


def chain_table(chain: Compression, metric: str, *, higher_is_better: bool) -> str:
    """A line a row, with ratios to the first one, and a sentence about the fastest that keeps the budget."""
    cells = [cell for cell in cells_of(chain) if cell[0] == 1]
    heading: tuple[str, ...] = (
        "step",
        "runtime",
        metric,
        "kept" if higher_is_better else "x error",
        "params",
        "on disk",
        "ratio",
    )
    for batch, length in cells:
        heading += (f"ms {batch}x{length}", "ratio")
    rows = [_line(row, chain.rows[0], cells, higher_is_better=higher_is_better) for row in chain.rows]
    return "\n".join([aligned([heading], rows), verdict(chain, higher_is_better=higher_is_better)])


def _line(
    row: CompressionRow, first: CompressionRow, cells: list[tuple[int, int]], *, higher_is_better: bool
) -> tuple[str, ...]:
    kept = "" if row.retained is None else f"{row.retained:.1%}" if higher_is_better else f"{row.retained:.2f}x"
    line: tuple[str, ...] = (
        row.step,
        f"{row.runtime.split()[0]} {row.precision}",
        f"{row.value:.4f}",
        kept,
        scaled(row.parameters),
        scaled(row.bytes_on_disk, "B"),
        f"{first.bytes_on_disk / row.bytes_on_disk:.1f}x",
    )
    for cell in cells:
        own, reference = time_of(row, cell), time_of(first, cell)
        if own is None or reference is None:
            line += ("", "")
            continue
        mark = "?" if doubt(own, reference) else ""
        line += (f"{own.p50_ms:.2f}", f"{reference.p50_ms / own.p50_ms:.1f}x{mark}")
    return line
