"""The tables of the pretraining benchmark."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from rounds import table

HEADER = (
    *("size", "contestant", "ms a step", "real tokens a step", "padding", "real tokens a second", "lowest to highest"),
    *("ours over it", "TFLOP/s", "share of peak", "padding counted", "data over training"),
)
Run = dict[str, Any]


def pace_table(runs: Sequence[Run]) -> str:
    """Medians over the repeats, one row a size and contestant.

    FLOP/s are those that the model needs. The share of the peak is that of the same repeat's peak, which was measured
    in the precision that ours has: it is given for contestants in that precision.
    """
    rows = []
    for size in dict.fromkeys(run["size"] for run in runs):
        paced = [run for run in runs if run["size"] == size and "tokens_a_second" in run]
        peaks = {run["repeat"]: run for run in runs if run["size"] == size and "peak_flops_a_second" in run}
        ours = {run["repeat"]: run for run in paced if run["contestant"] == "ours"}
        if peaks:
            rows.append(_peak_row(size, list(peaks.values())))
        rows += [
            _row(size, contestant, [run for run in paced if run["contestant"] == contestant], ours, peaks)
            for contestant in dict.fromkeys(run["contestant"] for run in paced)
        ]
    return table(HEADER, rows)


def _peak_row(size: str, runs: Sequence[Run]) -> list[str]:
    peak = _middle(runs, lambda run: run["peak_flops_a_second"] / 1e12)
    return [size, f"peak, {runs[0]['precision']}", *[""] * 6, f"{peak:.2f}", *[""] * 3]


def _row(size: str, contestant: str, runs: Sequence[Run], ours: dict[int, Run], peaks: dict[int, Run]) -> list[str]:
    name = f"ours, {runs[0]['precision']}" if contestant == "ours" else contestant
    paces = [run["tokens_a_second"] for run in runs]
    # Neighbours in time are compared, so that a slow while does not count.
    paired = [run for run in runs if run["repeat"] in ours] if contestant != "ours" else []
    shared = [run for run in runs if run["repeat"] in peaks and peaks[run["repeat"]]["precision"] == run["precision"]]

    def share(field: str) -> str:
        if not shared:
            return ""
        return f"{_middle(shared, lambda run: run[field] / peaks[run['repeat']]['peak_flops_a_second']):.0%}"

    ratio = _middle(paired, lambda run: ours[run["repeat"]]["tokens_a_second"] / run["tokens_a_second"])
    fed = [run for run in runs if "data_pieces_a_second" in run]
    return [
        size,
        name,
        f"{_middle(runs, lambda run: run['milliseconds_a_step']):,.1f}",
        f"{_middle(runs, lambda run: run['tokens_a_step']):,.0f}",
        f"{_middle(runs, lambda run: run['padding']):.0%}",
        f"{statistics.median(paces):,.0f}",
        f"{min(paces):,.0f} to {max(paces):,.0f}",
        f"{ratio:.2f}" if paired else "",
        f"{_middle(runs, lambda run: run['flops_a_second'] / 1e12):.2f}",
        share("flops_a_second"),
        share("flops_a_second_with_padding"),
        f"{_middle(fed, lambda run: run['data_pieces_a_second'] / run['tokens_a_second']):.0f}" if fed else "",
    ]


def profile_table(runs: Sequence[Run]) -> str:
    """Shares of the wall time of steps in one thread, a column a size."""
    watched = [run for run in runs if "shares" in run]
    names = list(dict.fromkeys(name for run in watched for name in run["shares"]))
    rows = [[name, *(f"{run['shares'].get(name, 0):.1%}" for run in watched)] for name in names]
    return table(["of a step in one thread", *(run["size"] for run in watched)], rows)


def _middle(runs: Sequence[Run], value: Callable[[Run], float]) -> float:
    return statistics.median(map(value, runs)) if runs else float("nan")
