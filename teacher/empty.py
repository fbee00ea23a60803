"""Rows without a text."""

from common.errors import UserError
from common.words import counted

_MOST_EMPTY = 0.05


def refuse_many_empty(empty: list[str], kept: int, notes: list[str]) -> None:
    """Few rows without text are left out with a note; many mean that the wrong column was taken."""
    if not empty:
        return
    share = len(empty) / (len(empty) + kept)
    if share > _MOST_EMPTY:
        more = f" and {counted(len(empty) - 1, 'more row')} ({share:.0%}) have" if len(empty) > 1 else " has"
        raise UserError(f"{empty[0]}{more} no text: is this the right column? Choose with --text-column")
    notes.append(f"{counted(len(empty), 'row')} without text left out (first: {empty[0]})")
