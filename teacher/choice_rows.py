"""A row of multiple choice: from its cells to a context and the choices that may go with it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from common.errors import UserError
from teacher.choice_columns import Roles
from teacher.decoding import Oddities, clean

Cell = Callable[[str], str]
"""From a column's name to what stands there."""


@dataclass(frozen=True, kw_only=True)
class Given:
    """What a row has."""

    context: str
    """Or the question, where there is no context."""
    texts: tuple[str, ...]
    """Every choice, behind the question if there are both a context and a question."""
    own: tuple[str, ...]
    """The choices as they are written."""
    names: tuple[str, ...]
    """What they are called, as in "A"; empty where nothing says that."""


def given_in(cell: Cell, roles: Roles, where: str, oddities: Oddities) -> Given:
    """Read a row.

    Raises:
        UserError: fewer than two choices, an empty one, or neither context nor question; it begins with `where`.
    """
    own, names = _choices(cell, roles, where)
    if len(own) < 2 or not all(text.strip() for text in own):
        raise UserError(f"{where}: two choices or more, none of them empty, were expected")
    context, question = (
        clean(cell(name), where, oddities) if name is not None else "" for name in (roles.context, roles.question)
    )
    if not context:
        context, question = question, ""
    if not context:
        raise UserError(f"{where}: neither a context nor a question: every row needs one")
    texts = tuple(clean(f"{question} {text}", where, oddities) for text in own)
    return Given(context=context, texts=texts, own=own, names=names)


def _choices(cell: Cell, roles: Roles, where: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Texts and names."""
    if len(roles.choices) == 1:
        return _listed(cell(roles.choices[0]), roles.choices[0], where)
    cells = [cell(name) for name in roles.choices]
    while cells and not cells[-1]:
        cells.pop()
    return tuple(cells), ()


def _listed(written: str, column: str, where: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A list of texts, a list of objects with "label" and "text", or an object of two such lists."""
    try:
        value: Any = json.loads(written)
    except ValueError:
        value = None
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        names = value["label"] if isinstance(value.get("label"), list) else [""] * len(value["text"])
        value = [{"text": text, "label": name} for text, name in zip(value["text"], names, strict=False)]
    if isinstance(value, list) and value and all(isinstance(entry, dict) and "text" in entry for entry in value):
        return tuple(str(entry["text"]) for entry in value), tuple(str(entry.get("label", "")) for entry in value)
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise UserError(f"{where}: a list of texts was expected in {column!r}, found {written[:60]!r}")
    return tuple(value), ()
