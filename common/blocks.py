"""Long lists a part at a time."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

Row = TypeVar("Row")

BLOCK = 10_000
"""Texts that are tokenised at once: what a tokenizer says of a million would fill gigabytes."""


def blocks(rows: Sequence[Row], size: int = BLOCK) -> Iterator[Sequence[Row]]:
    """The rows in order, `size` at a time; the last part may be shorter.

    >>> [list(part) for part in blocks("abcde", 2)]
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
