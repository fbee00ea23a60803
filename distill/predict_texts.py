"""One text to predict for, and what the user says of where it is read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from distill.predict_lines import BadLineError, Faults, checked
from teacher.columns import Asked
from teacher.decoding import Oddities, clean

Format = Literal["auto", "txt", "csv", "tsv", "jsonl"]


@dataclass(frozen=True, slots=True)
class Text:
    """What one prediction is for."""

    line: int
    """Where it starts, from 1."""
    text: str
    pair: str | None = None
    id: str | None = None
    choices: tuple[str, ...] = ()
    """Of which a model of multiple choice takes one, behind the question where there are a context and a question."""
    own: tuple[str, ...] = ()
    """The choices as they are written, where that is something else."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What is read."""

    file: Path | None = None
    """File with the texts, .gz too; - is standard input."""
    format: Format = "auto"
    """Of the texts. auto goes by the file's name; without one that says it a first line that is a JSON object means
    jsonl, any other one text a line."""
    text_column: str | None = None
    """Column with the text (name, or number from 1 in a file without header); found as --task of other commands does
    if not given."""
    pair_column: str | None = None
    """Column with the second text."""
    id_column: str | None = None
    """Column that names a row in the output; id, idx, guid or uid if not given."""

    def asked(self) -> Asked:
        """The columns that the user named."""
        return Asked(text=self.text_column, pair=self.pair_column)


def cleaned(text: str, line: int, what: str, faults: Faults, oddities: Oddities, *, whole: bool = False) -> str:
    """As a task's texts are, or with `whole` as it stands; `what` is the field, or "".

    Raises:
        BadLineError: no UTF-8, or nothing in it.
    """
    found = clean(checked(text, what), f"{faults.source}:{line}", Oddities() if whole else oddities)
    if not found:
        raise BadLineError(f"has no text in {what}" if what else "has no text")
    return text if whole else found
