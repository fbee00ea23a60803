"""Rows of csv and tsv files, streamed, each with the line on which it starts."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from distill.predict_lines import BadLineError
from teacher.decoding import LONGEST_LINE
from teacher.readers import csv_delimiter, tabs_are_quoted


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
        """Every record that is not blank."""
        feed = _Feed(lines)
        # A quote that is never closed would take the rest of the file for one field.
        csv.field_size_limit(LONGEST_LINE)
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE
        reader = csv.reader(feed, delimiter=self.delimiter, quoting=quoting)
        while True:
            feed.first = 0
            try:
                fields, fault = next(reader), ""
            except StopIteration:
                return
            except csv.Error as error:
                fields, fault = [], f"is no row ({error})"
            if fault or any(field.strip() for field in fields):
                yield Record(feed.first, feed.last, fields, fault)


class _Feed:
    """Lines for the csv module, which asks for as many as a record takes."""

    def __init__(self, lines: Iterator[tuple[int, str]]) -> None:
        self._lines = lines
        self.first = self.last = 0

    def __iter__(self) -> "_Feed":
        return self

    def __next__(self) -> str:
        self.last, line = next(self._lines)
        self.first = self.first or self.last
        return line + "\n"
