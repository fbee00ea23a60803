"""Text without labels from the user's file, checked against the task."""

from collections.abc import Iterator
from pathlib import Path

from common.errors import UserError
from common.words import counted
from teacher.columns import Asked, column_names, find_texts
from teacher.data import Example, TaskData
from teacher.decoding import Oddities, clean, read_text
from teacher.empty import refuse_many_empty
from teacher.readers import read_table
from teacher.splits import same

Text = tuple[str, str | None]


def read_unlabeled(
    path: Path, data: TaskData, *, text_column: str | None = None, pair_column: str | None = None
) -> tuple[list[Example], list[str]]:
    """The file's texts in order, each once, and sentences on what was left out.

    Left out are repeats, the training texts (which are learned from anyway) and every text of a held-out split. The
    examples' labels are 0 and mean nothing.

    Raises:
        UserError: unreadable, pairs where the task has single texts or the other way round, nothing left.
    """
    pairs = data.paired
    notes: list[str] = []
    oddities = Oddities()
    named = Asked(text=text_column, pair=pair_column)
    found = _lines(path, oddities) if _is_plain(path) else _rows(path, named, oddities)
    if not found:
        raise UserError(f"--unlabeled {path} has no text in it")
    if (found[0][1][1] is not None) != pairs:
        has, wants = ("single texts", "pairs of texts") if pairs else ("pairs of texts", "single texts")
        raise UserError(
            f"--unlabeled {path} has {has}, the task {data.name} has {wants}: choose with --text-column and "
            "--pair-column, in a csv, tsv or jsonl file"
        )
    texts = [text for _, text in found if "" not in text]
    refuse_many_empty([where for where, text in found if "" in text], len(texts), notes)
    held = {split: {same(row.text, row.pair) for row in rows} for split, rows in data.splits.items()}
    kept = list(_kept(texts, held, path, notes))
    if not kept:
        raise UserError(f"--unlabeled {path}: all of its texts are in the task's data already: nothing is left to add")
    return kept, [*oddities.notes(), *notes]


def _kept(texts: list[Text], held: dict[str, set[Text]], path: Path, notes: list[str]) -> Iterator[Example]:
    seen: set[Text] = set()
    left = dict.fromkeys(["repeats", *held], 0)
    for text, pair in texts:
        key = same(text, pair)
        why = "repeats" if key in seen else next((split for split in held if key in held[split]), None)
        seen.add(key)
        if why is not None:
            left[why] += 1
            continue
        yield Example(text, pair, 0)
    for why, count in left.items():
        if count:
            reason = "repeated" if why == "repeats" else f"also in the split {why!r}"
            notes.append(f"{path.name}: {counted(count, 'text')} left out, {reason}")


def _is_plain(path: Path) -> bool:
    return path.name.lower().endswith((".txt", ".txt.gz"))


def _lines(path: Path, oddities: Oddities) -> list[tuple[str, Text]]:
    """Where each text stands, and the text; empty lines are none."""
    text, _ = read_text(path, oddities)
    places = ((f"{path}:{number}", line) for number, line in enumerate(text.split("\n"), 1))
    lines = ((where, clean(line, where, oddities)) for where, line in places)
    return [(where, (line, None)) for where, line in lines if line]


def _rows(path: Path, asked: Asked, oddities: Oddities) -> list[tuple[str, Text]]:
    table = read_table(path, oddities)
    columns = find_texts(table, asked)
    names = column_names(table, columns.header)
    places = [names.index(name) for name in (columns.text, columns.pair) if name is not None]
    rows: list[tuple[str, Text]] = []
    for index in range(1 if columns.header and table.columns is None else 0, len(table.records)):
        where = table.where(index)
        fields = [clean(table.records[index][place], where, oddities) for place in places]
        rows.append((where, (fields[0], fields[1] if len(fields) > 1 else None)))
    return rows
