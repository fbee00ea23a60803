"""Progress of long steps: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

Item = TypeVar("Item")


_silent = False


def silence() -> None:
    """Say and draw nothing from now on: this is one of several processes that do the same, and another one speaks."""
    global _silent  # noqa: PLW0603 - a process has one standard output
    _silent = True


def silent() -> bool:
    """Whether another process speaks for this one."""
    return _silent


_on_stderr = False


def say_on_stderr() -> None:
    """Say everything on standard error from now on: this command's standard output is for its results."""
    global _on_stderr  # noqa: PLW0603 - a process has one standard output
    _on_stderr = True


def say(message: str) -> None:
    """One line for the user, flushed, kept apart from a running bar."""
    if not _silent:
        stream = sys.stderr if _on_stderr else sys.stdout
        tqdm.write(message, file=stream)
        stream.flush()


_line = 0
"""The terminal line of this process's bar, below its parent's: several processes draw at once."""


def take_line(line: int) -> None:
    """Draw this process's bars on line `line` from now on."""
    global _line  # noqa: PLW0603 - a terminal has one set of lines, and a worker process one place on it
    _line = line


class Progress:
    """`with Progress("tokenise", total=100, unit="text") as bar: bar.advance(5, note="loss 0.3")`.

    On a terminal a tqdm bar on standard error; elsewhere a plain line at most every `seconds` seconds and one at the
    end, unless not `closing`. A `total` of None is not known.
    """

    def __init__(
        self,
        label: str,
        *,
        total: int | None,
        unit: str = "step",
        done: int = 0,
        seconds: float = 15.0,
        closing: bool = True,
    ) -> None:
        self.label, self.total, self.unit, self.done, self.seconds = label, total, unit, done, seconds
        self.note, self._closing = "", closing
        self._bar = (
            tqdm(desc=label, total=total, initial=done, unit=unit, leave=False, position=_line)
            if sys.stderr.isatty() and not _silent
            else None
        )
        self._start = self._last = time.monotonic()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.close()
        if exception[0] is None and self._closing:
            self._line(time.monotonic())

    def advance(self, count: int = 1, *, note: str = "") -> None:
        self.done += count
        self.note = note or self.note
        if self._bar is not None:
            self._bar.set_postfix_str(self.note, refresh=False)
            self._bar.update(count)
            return
        now = time.monotonic()
        if now - self._last >= self.seconds:
            self._last = now
            self._line(now)

    def _line(self, now: float) -> None:
        note = f", {self.note}" if self.note else ""
        whole = "" if self.total is None else f"/{self.total:,}"
        say(f"{self.label}: {self.done:,}{whole} {self.unit}s in {now - self._start:.0f} s{note}")


def progress(items: Iterable[Item], label: str, *, total: int, unit: str = "item") -> Iterator[Item]:
    """Iterate with a bar or lines."""
    with Progress(label, total=total, unit=unit) as bar:
        for item in items:
            yield item
            bar.advance()
