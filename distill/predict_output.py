"""Predictions as lines: jsonl, or csv into a file."""

import contextlib
import csv
import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from common.errors import UserError
from common.files import explain_full_disk, new_file
from distill.predict_answers import Head
from distill.predict_texts import Text

Write = Callable[[Sequence[Text], Sequence[Mapping[str, Any]]], None]
_SUFFIXES = (".jsonl", ".ndjson", ".csv")


def check_out(path: Path) -> None:
    """Raise UserError unless predictions can go to `path`: a new jsonl or csv file."""
    if path.suffix.lower() not in _SUFFIXES:
        raise UserError(f"--out {path}: a name that ends in {', '.join(_SUFFIXES)} was expected")
    if path.exists():
        raise UserError(f"--out {path} is there already: it is left as it is, choose another name")


@contextlib.contextmanager
def open_output(path: Path | None, head: Head) -> Iterator[Write]:
    """A function that writes texts' answers: to standard output, or to a file that is there once all is written.

    A csv file has a column of ids, empty where the input has none.
    """
    if path is None:
        with explain_full_disk(Path("standard output")):
            yield lambda texts, answers: _json_lines(sys.stdout.buffer, head, texts, answers)
        return
    with explain_full_disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path) as stream:
        if path.suffix.lower() == ".csv":
            stream.write(_csv([_headings(head)]))
            yield lambda texts, answers: _csv_rows(stream, head, texts, answers)
        else:
            yield lambda texts, answers: _json_lines(stream, head, texts, answers)
        check_out(path)


def _json_lines(stream: BinaryIO, head: Head, texts: Sequence[Text], answers: Sequence[Mapping[str, Any]]) -> None:
    lines = []
    for text, answer in zip(texts, answers, strict=True):
        value: dict[str, Any] = {"line": text.line}
        if text.id is not None:
            value["id"] = text.id
        if head.options.with_text:
            value["text"] = text.text
            if text.pair is not None:
                value["pair"] = text.pair
        lines.append(json.dumps(value | dict(answer), ensure_ascii=False, allow_nan=False) + "\n")
    stream.write("".join(lines).encode("utf-8"))
    # Whoever reads the other end of a pipe gets answers as they are found.
    stream.flush()


def _headings(head: Head) -> list[str]:
    return ["line", "id", *(["text", "pair"] if head.options.with_text else []), *head.columns()]


def _csv_rows(stream: BinaryIO, head: Head, texts: Sequence[Text], answers: Sequence[Mapping[str, Any]]) -> None:
    rows: list[list[Any]] = []
    for text, answer in zip(texts, answers, strict=True):
        shown = [text.text, text.pair] if head.options.with_text else []
        rows.append([text.line, text.id, *shown, *head.cells(answer)])
    stream.write(_csv(rows))


def _csv(rows: Sequence[Sequence[Any]]) -> bytes:
    target = io.StringIO()
    csv.writer(target, lineterminator="\n").writerows(rows)
    return target.getvalue().encode("utf-8")
