"""What is seen only now and then during a stage: rows of single values beside the history's means."""

from collections.abc import Mapping
from pathlib import Path

from teacher.history import History, Row, read_rows

FILE = "journal.jsonl"


class Journal:
    """Rows of a stage in FILE of its folder; those after the step that a resumed stage goes on from are dropped."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._history: History | None = None
        self._start: int | None = None
        self._step = 0

    def at(self, step: int) -> None:
        """The step, counted from 0, that is now to be written about."""
        self._start = step if self._start is None else self._start
        self._step = step

    def write(self, values: Mapping[str, float]) -> None:
        """Write a row about the step; there is no file before the first."""
        if self._history is None:
            self._history = History(self.path, upto=self._start or 0, every=1)
        # The history's rows are numbered by steps done.
        self._history.note(self._step + 1, values)


def journal_rows(folder: Path) -> list[Row]:
    """The rows of a stage; none where nothing was asked for."""
    return read_rows(folder / FILE) if (folder / FILE).exists() else []


def teacher_layer_of(layer: int) -> str:
    """The name of what the layer map "nearest" found for a student layer, counted from 1."""
    return f"teacher layer of {layer}"
