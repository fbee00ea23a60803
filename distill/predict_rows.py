"""Rows of csv and tsv files, streamed, each with the line on which it starts."""

import csv
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from distill.predict_lines import BadLineError
from teacher.decoding import LONGEST_LINE
from teacher.readers import csv_delimiter, tabs_are_quoted

_OPEN = (
    'has a quote that is not closed (one at the beginning of a text needs quotes around it, and is written twice: "")'
)


@dataclass(frozen=True, slots=True)
class Record:
    """One row as it stands in the file."""

    line: int
    last: int
    """Differs from `line` where a quoted field has line ends."""
    fields: list[str]
    fault: str
    """Why it is no row; empty where it is one."""

    def named(self, names: Sequence[str]) -> Mapping[str, str]:
        """Its fields by column.

        Raises:
            BadLineError: it is no row, or has another number of fields.
        """
        if not self.fault and len(self.fields) == len(names):
            return dict(zip(names, self.fields, strict=True))
        few = len(self.fields) < len(names)
        hint = "a separator is missing" if few else "a separator in a text needs quotes around the text"
        wrong = self.fault or f"has {len(self.fields)} of {len(names)} fields ({hint})"
        raise BadLineError(
            wrong if self.last == self.line else f"{wrong}, with a quote that goes on to line {self.last}"
        )


@dataclass(frozen=True, kw_only=True)
class Separated:
    """How a file's fields are separated."""

    delimiter: str
    quoted: bool

    @classmethod
    def of(cls, sample: Sequence[str], *, tabs: bool) -> "Separated":
        """By the file's first lines, as whole files are read for tasks."""
        if tabs:
            return cls(delimiter="\t", quoted=tabs_are_quoted("\n".join(sample)))
        return cls(delimiter=csv_delimiter(next((line for line in sample if line.strip()), "")), quoted=True)

    def records(self, lines: Iterator[tuple[int, str]]) -> Iterator[Record]:
        """Every record that is not blank.

        A quote that is never closed would take all rows below it for one text: the line that it stands on is no row,
        and those below are read as if it were not there.
        """
        feed = _Feed(lines)
        # Bounds what is held of a quote that is not closed.
        csv.field_size_limit(LONGEST_LINE)
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE
        reader = csv.reader(feed, delimiter=self.delimiter, quoting=quoting)
        while True:
            feed.begin()
            try:
                fields, fault = next(reader), _OPEN if feed.ended else ""
            except StopIteration:
                return
            except csv.Error as error:
                fields, fault = [], f"is no row ({error})" if feed.first == feed.last else _OPEN
            if fault == _OPEN:
                feed.again()
            if fault or any(field.strip() for field in fields):
                yield Record(feed.first, feed.last, fields, fault)


class _Feed:
    """Lines for the csv module, which asks for as many as a record takes."""

    def __init__(self, lines: Iterator[tuple[int, str]]) -> None:
        self._lines, self._waiting = lines, deque[tuple[int, str]]()
        self._taken: list[tuple[int, str]] = []
        self.ended = False
        """Whether there was no further line for the record."""

    def begin(self) -> None:
        """The next line is the first one of a record."""
        self._taken, self.ended = [], False

    def again(self) -> None:
        """Give all lines of the record but the first once more."""
        self._waiting.extendleft(reversed(self._taken[1:]))
        del self._taken[1:]

    @property
    def first(self) -> int:
        return self._taken[0][0]

    @property
    def last(self) -> int:
        return self._taken[-1][0]

    def __iter__(self) -> "_Feed":
        return self

    def __next__(self) -> str:
        found = self._waiting.popleft() if self._waiting else next(self._lines, None)
        if found is None:
            self.ended = True
            raise StopIteration
        self._taken.append(found)
        return found[1] + "\n"
