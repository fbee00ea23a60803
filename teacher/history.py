"""The history of a stage: one JSON line a logging interval, and one an evaluation."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from common.files import write_text


@dataclass(frozen=True)
class Row:
    """Means since the row before (or single values, for evaluations), at an optimizer step."""

    step: int
    values: dict[str, float]


Listen = Callable[[int, Mapping[str, float]], None]
"""Told every row as it is written: step and values."""


class History:
    """Means of what is added, a row every `every` steps, appended to a file.

    A resumed run drops the rows after `upto`, so that the file reads as if it had never stopped. Of several processes
    one writes and listens; the others only count.
    """

    def __init__(self, path: Path, *, upto: int, every: int, writes: bool = True, listen: Listen | None = None) -> None:
        self.path, self.every, self.writes, self.listen = path, every, writes, listen
        self.sums: dict[str, float] = {}
        self.count = 0
        if not writes:
            return
        kept = [row for row in read_rows(path) if row.step <= upto] if path.exists() else []
        # Whole or not at all: a kill here must not take the rows of earlier sittings along.
        write_text(path, "".join(_line(row) for row in kept))

    def add(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.count += 1
        if step % self.every == 0:
            self.flush(step)

    def flush(self, step: int) -> None:
        """Write the pending means, if there are any."""
        if self.count:
            self.note(step, {name: total / self.count for name, total in self.sums.items()})
            self.sums, self.count = {}, 0

    def note(self, step: int, values: Mapping[str, float]) -> None:
        """Write one row as it is."""
        if not self.writes:
            return
        if self.listen is not None:
            self.listen(step, values)
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(_line(Row(step, dict(values))))

    def rows(self) -> list[Row]:
        return read_rows(self.path)


def _line(row: Row) -> str:
    return json.dumps({"step": row.step, **row.values}) + "\n"


def read_rows(path: Path) -> list[Row]:
    """The rows of a history file; a last line that a kill cut short is passed over."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            values = json.loads(line)
        except ValueError:
            break
        rows.append(Row(int(values.pop("step")), values))
    return rows
