"""Documents from rows with a text among other columns: jsonl files and the hub."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from common.errors import UserError, unknown_name
from teacher.columns import TEXT_NAMES
from teacher.decoding import Oddities, stream_lines, without_control

_NAMES = ("text", "content", "document", "article", "body", *TEXT_NAMES)
"""Columns that are looked for, in this order, where the user names none."""

_EXPECTED = 'an object like {"text": ...} was expected on each line'


def row_texts(rows: Iterable[tuple[str, dict[str, Any]]], column: str | None, oddities: Oddities) -> Iterator[str]:
    """The text of each row, given with where it stands. A row is a document; its lines end sentences.

    The first row settles the column. Rows whose text is missing, null or blank are left out and counted.

    Raises:
        UserError: the first row has no such column, or no usual one; a text that is none.
    """
    settled: str | None = None
    for where, row in rows:
        settled = settled or _text_column(where, row, column)
        text = row.get(settled)
        if text is not None and not isinstance(text, str):
            kind = type(text).__name__
            raise UserError(f"{where} has a value of type {kind} in column {settled!r}: a text was expected")
        text = without_control(text or "", where, oddities)
        if text.strip():
            yield text
        else:
            oddities.add(f"without text in {settled!r}, left out", where)


def _text_column(where: str, row: dict[str, Any], asked: str | None) -> str:
    """The column asked for, or else the first with a usual name and no list or number in it."""
    if asked is not None and asked not in row:
        raise UserError(f"{where}: {unknown_name('column', asked, row)}. Choose with --text-column")
    usual = (name for name in _NAMES if name in row and isinstance(row[name], str | None))
    found = asked or next(usual, None)
    if found is None:
        raise UserError(f"{where} has no text column: found {', '.join(row) or 'none'}. Choose with --text-column")
    return found


def json_rows(path: Path, oddities: Oddities) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each object of a jsonl file, gzip or not, with file and line.

    Raises:
        UserError: a line that is no JSON object; names it.
    """
    for number, line in enumerate(stream_lines(path, oddities, longest=None), 1):
        if not line.strip():
            continue
        where = f"{path.name}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{where} is not json ({getattr(error, 'msg', error)}): {_EXPECTED}") from error
        if not isinstance(row, dict):
            raise UserError(f"{where} is json but no object: {_EXPECTED}")
        yield where, row
