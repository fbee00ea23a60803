"""The texts to predict for, streamed: lines of text, jsonl objects, or rows of csv and tsv."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

from common.errors import UserError
from distill.predict_fields import Rows, is_object, objects, separated
from distill.predict_lines import STDIN, BadLineError, Faults, Lines
from distill.predict_texts import Format, Reading, Text, cleaned
from teacher.decoding import Oddities

SUFFIXES: dict[str, Format] = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".txt": "txt"}
SAMPLE = 1000
"""Lines by which columns and separators are found."""


def read_texts(
    lines: Lines,
    path: Path | None,
    reading: Reading,
    faults: Faults,
    oddities: Oddities,
    rows: type[Rows] = Rows,
    *,
    whole: str = "",
) -> Iterator[Text]:
    """Every text in its order; bad lines become faults. `rows` reads records; `whole` is as there.

    Raises:
        UserError: it is not clear which column is the text, or one that was named does not exist; a bad line, where
            faults are strict.
    """
    numbered = iter(lines)
    first = next(numbered, None)
    if first is None:
        return
    numbered = itertools.chain([first], numbered)
    kind = _format(path, reading, first[1])
    if kind == "txt":
        if reading.text_column or reading.pair_column or reading.id_column:
            raise UserError(
                f"{faults.source} has one text a line, so no columns: leave --text-column and its like out, or say "
                "with --format what it is"
            )
        yield from _plain(numbered, faults, oddities, whole=whole == "text")
        return
    sample = _sample(numbered, short=path is None and kind == "jsonl")
    read = objects if kind == "jsonl" else separated
    yield from read(sample, numbered, kind, rows(Path(faults.source), reading, faults, oddities, whole=whole))


def _sample(numbered: Iterator[tuple[int, str]], *, short: bool) -> list[tuple[int, str]]:
    """The first lines; a `short` sample ends with a JSON object: who writes one line at a time waits for its answer."""
    sample = []
    for number, line in itertools.islice(numbered, SAMPLE):
        sample.append((number, line))
        if short and is_object(line):
            break
    return sample


def _format(path: Path | None, reading: Reading, first: str) -> Format:
    if reading.format != "auto":
        return reading.format
    if path is not None:
        name = path.with_suffix("") if path.suffix.lower() == ".gz" else path
        if name.suffix.lower() in SUFFIXES:
            return SUFFIXES[name.suffix.lower()]
        if first.lstrip().startswith("[") and name.suffix.lower() == ".json":
            raise UserError(f"{path} is one list of objects: make it jsonl, one object a line, to have it streamed")
        if name.suffix.lower() == ".json" and _is_document(first):
            raise UserError(f"{path} is one JSON document: make it jsonl, one object a line with one text each")
        if reading.text_column is not None and not first.lstrip().startswith("{"):
            return "tsv" if "\t" in first else "csv"
    return "jsonl" if is_object(first) else "txt"


def _is_document(first: str) -> bool:
    """Whether a .json file with this first line is one document, such as SQuAD's, and not an object a line."""
    return first.strip() == "{" or (is_object(first) and isinstance(json.loads(first).get("data"), list))


def _plain(lines: Iterator[tuple[int, str]], faults: Faults, oddities: Oddities, *, whole: bool) -> Iterator[Text]:
    for number, line in lines:
        try:
            yield Text(number, cleaned(line, number, "", faults, oddities, whole=whole))
        except BadLineError as error:
            faults.add(number, str(error))


def source_name(path: Path | None) -> str:
    """For messages."""
    return STDIN if path is None else str(path)
