"""Lines of a stream of bytes, one after the other, whatever its size; and what is said about the bad ones."""

import contextlib
import os
import re
import select
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from common.errors import UserError
from common.progress import say
from common.words import counted
from teacher.binary import refuse_stream, refuse_undecodable
from teacher.decoding import LONGEST_LINE, explain_reading, open_text

BLOCK = 2**16
SHOWN = 100
"""Bad lines that are shown one by one."""
STDIN = "standard input"
_HALF_PAIR = re.compile(r"[\ud800-\udfff]")


class BadLineError(Exception):
    """Why a line cannot be predicted for."""


class Faults:
    """Bad lines, said as they come and counted; with `strict` the first one ends the command."""

    def __init__(self, source: str, *, strict: bool) -> None:
        self.source, self.strict, self.count = source, strict, 0

    def add(self, line: int, reason: str) -> None:
        """Raises UserError with `strict`."""
        if self.strict:
            raise UserError(f"{self.source}:{line} {reason} (--strict: without it such lines are left out)")
        self.count += 1
        if self.count <= SHOWN:
            say(f"{self.source}:{line} {reason}: left out")
        elif self.count == SHOWN + 1:
            say("further lines that are left out are counted, not shown")

    def summary(self) -> str:
        """ "3 lines left out", or nothing."""
        return f"{counted(self.count, 'line')} left out" if self.count else ""


class Lines:
    """(number from 1, text) of every line, without its end. Bytes that are no UTF-8 become lone surrogates.

    A line of more than LONGEST_LINE bytes is a fault.
    """

    def __init__(self, read: Callable[[int], bytes], faults: Faults, *, live: int | None = None) -> None:
        """`read` gives bytes as they come, so many at most; `live` is the descriptor of what someone may be writing to
        while waiting for answers.
        """
        self._read, self._faults, self._live = read, faults, live
        self._ready: deque[bytes] = deque()
        self._rest, self._ended, self._too_long = b"", False, False
        self.number = 0

    def __iter__(self) -> Iterator[tuple[int, str]]:
        while self._fill():
            line = self._ready.popleft()
            self.number += 1
            if self._too_long or len(line) > LONGEST_LINE:
                self._too_long = False
                self._faults.add(self.number, f"is longer than {LONGEST_LINE:,} bytes")
                continue
            text = line.removesuffix(b"\r").decode("utf-8", errors="surrogateescape")
            yield self.number, text.removeprefix("\ufeff") if self.number == 1 else text

    def idle(self) -> bool:
        """Whether a live stream has nothing more to give at the moment, so that answers should not wait for it."""
        return self._live is not None and not self._ready and not select.select([self._live], [], [], 0)[0]

    def _fill(self) -> bool:
        while not self._ready and not self._ended:
            block = self._read(BLOCK)
            *whole, self._rest = (self._rest + block).split(b"\n")
            self._ready.extend(whole)
            if len(self._rest) > LONGEST_LINE:
                self._too_long, self._rest = True, b""
            if not block:
                self._ended = True
                self._ready.extend([self._rest] if self._rest or self._too_long else [])
        return bool(self._ready)


@contextlib.contextmanager
def open_lines(path: Path | None, faults: Faults) -> Iterator[Lines]:
    """Those of a file, gzip unpacked, also where they end in CR alone, or of standard input.

    Raises:
        UserError: missing, unreadable, UTF-16, binary, or a broken gzip; standard input that is packed.
    """
    if path is None:
        descriptor = sys.stdin.fileno()
        yield Lines(_refusing(lambda size: os.read(descriptor, size)), faults, live=descriptor)
        return
    with open_text(path) as stream:
        start = stream.peek(BLOCK)
        refuse_undecodable(str(path), start)
        # What spreadsheets call "CSV (Macintosh)", as whole files are read for tasks.
        bare = b"\r" in start and b"\n" not in start

        def read(size: int) -> bytes:
            # Not around the whole: what is done with the lines has errors of its own.
            with explain_reading(path):
                block = stream.read1(size)
            return block.replace(b"\r", b"\n") if bare else block

        yield Lines(read, faults)


def _refusing(read: Callable[[int], bytes]) -> Callable[[int], bytes]:
    """`read`, whose first bytes must be those of a text."""
    seen = False

    def checked_read(size: int) -> bytes:
        nonlocal seen
        block = read(size)
        if not seen:
            refuse_stream(STDIN, block)
            refuse_undecodable(STDIN, block)
            seen = True
        return block

    return checked_read


def count_lines(path: Path | None) -> int | None:
    """Lines of a file, for progress; None for what is packed, ends lines in CR alone, or is no file."""
    if path is None or not path.is_file() or path.suffix == ".gz":
        return None
    with path.open("rb") as stream:
        return sum(block.count(b"\n") for block in iter(lambda: stream.read(2**20), b"")) or None


def checked(text: str, what: str) -> str:
    """`text`, unless bytes in it were no UTF-8 or it holds half of a character; `what` is the field, or "".

    Raises:
        BadLineError
    """
    if _HALF_PAIR.search(text):
        raise BadLineError(f"is not UTF-8 in {what}" if what else "is not UTF-8")
    return text
