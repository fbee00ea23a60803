"""A file or a folder on this machine to rows of a task."""

import difflib
import re
from pathlib import Path

from common.errors import UserError
from teacher.columns import Asked, Columns, column_names, find_columns, has_header
from teacher.decoding import DOCUMENTATION, Oddities, clean, suffix_of
from teacher.empty import refuse_many_empty
from teacher.formats import EXTENSIONS, own_format
from teacher.glue import GLUE, recognise
from teacher.raw import RawTask, Row
from teacher.readers import Table, read_table

PART_WORDS = {
    "train": "train",
    "training": "train",
    "dev": "dev",
    "devel": "dev",
    "valid": "dev",
    "validation": "dev",
    "val": "dev",
    "test": "test",
}
"""Words in file names that say which part a file is."""


def load_path(path: Path, asked: Asked) -> RawTask:
    """Rows of a file, or of the train, dev and test files of a folder.

    Raises:
        UserError: nothing there, nothing usable, or a fault in a file; names file and line.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist.{nearest_files(path)} Give a file or a folder with --task")
    files = find_parts(path) if path.is_dir() else {"train": path}
    own = own_format(files["train"], asked)
    if own is not None:
        return own(_short_name(path), files, asked)
    oddities = Oddities()
    tables = {part: read_table(file, oddities) for part, file in files.items()}
    folder = path if path.is_dir() else path.parent
    glue = recognise(folder, tables["train"])
    raw = RawTask(
        name=glue or _short_name(path),
        parts={},
        origins={part: file.name for part, file in files.items()},
        sources={table.path.name: table.sha256 for table in tables.values()},
    )
    columns = _glue_columns(glue, tables["train"], asked) if glue else find_columns(tables["train"], asked)
    raw.label_column = str(columns.label)
    for part, table in tables.items():
        rows = read_rows(table, columns, oddities, raw.notes, required=part == "train")
        if rows is not None:
            raw.parts[part] = rows
    if glue and not asked.names():
        task = GLUE[glue]
        raw.metric, raw.labels = task.metric, task.labels
        raw.kind = "classification" if task.labels else "regression"
    if path.is_file() and (beside := _parts_beside(path)):
        raw.notes.append(f"only {path.name} is used; {', '.join(beside)} lie beside it: give the folder to use them")
    raw.notes.extend(oddities.notes())
    return raw


def nearest_files(path: Path) -> str:
    """ " Near it: ..." with the names most like a missing one, or else what its folder holds."""
    if not path.parent.is_dir():
        return f" Neither does the folder {path.parent}."
    names: dict[str, list[str]] = {}
    for name in sorted(entry.name for entry in path.parent.iterdir() if not entry.name.startswith(".")):
        # Without extensions, which would make any two names alike.
        names.setdefault(name.lower().split(".")[0], []).append(name)
    stems = difflib.get_close_matches(path.name.lower().split(".")[0], names, n=3, cutoff=0.7)
    if near := [name for stem in stems for name in names[stem]][:3]:
        return f" Near it: {', '.join(near)}."
    found = [name for group in names.values() for name in group]
    more = f" and {len(found) - 5:,} more" if len(found) > 5 else ""
    return f" Its folder holds {', '.join(found[:5])}{more}." if found else " Its folder is empty."


def find_parts(folder: Path) -> dict[str, Path]:
    """The train, dev and test files of a folder; a single data file is the train part.

    Raises:
        UserError: no data file, no train file among several, or two files for one part.
    """
    usable = [file for file in sorted(folder.iterdir()) if _is_data(file)]
    parts: dict[str, list[Path]] = {}
    for file in usable:
        if part := _part(file):
            parts.setdefault(part, []).append(file)
    if not parts and len(usable) == 1:
        return {"train": usable[0]}
    if "train" not in parts:
        found = ", ".join(sorted(entry.name for entry in folder.iterdir())) or "nothing"
        wanted = "a train file (train.tsv, and dev.tsv, test.tsv) or one single data file"
        raise UserError(f"{folder} holds no usable data: found {found}; expected {wanted} as {', '.join(EXTENSIONS)}")
    for part, files in parts.items():
        if len(files) > 1:
            names = ", ".join(file.name for file in files)
            raise UserError(
                f"{folder} holds several {part} files ({names}): keep one, or give a single file with --task"
            )
    return {part: parts[part][0] for part in ("train", "dev", "test") if part in parts}


def _is_data(file: Path) -> bool:
    named = suffix_of(file) in EXTENSIONS or not file.suffix
    return file.is_file() and named and not DOCUMENTATION.match(file.name) and not file.name.startswith(".")


def _part(file: Path) -> str | None:
    """Which part a file is, by its name. MNLI's and similar "mismatched" files are not looked at."""
    words = re.split(r"[^a-z]+", file.name.lower())
    if "mismatched" in words:
        return None
    return next((PART_WORDS[word] for word in words if word in PART_WORDS), None)


def _parts_beside(path: Path) -> list[str]:
    mine = _part(path)
    others = [file for file in sorted(path.parent.iterdir()) if file != path and _is_data(file)]
    return [file.name for file in others if mine and _part(file) not in (None, mine)]


def _short_name(path: Path) -> str:
    stem = path.resolve().name if path.is_dir() else path.name.split(".")[0]
    return re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-") or "task"


def _glue_columns(glue: str, table: Table, asked: Asked) -> Columns:
    """The columns that GLUE's own layout names, where the user names none."""
    task = GLUE[glue]
    if asked.names():
        return find_columns(table, asked)
    if task.headerless and table.columns is None and task.text not in table.records[0]:
        number = {name: str(place) for place, name in enumerate(task.headerless, 1)}
        return Columns(text=number[task.text], pair=None, label=number[task.label], header=False)
    return Columns(text=task.text, pair=task.pair, label=task.label, header=True)


def read_rows(
    table: Table, columns: Columns, oddities: Oddities, notes: list[str], *, required: bool
) -> list[Row] | None:
    """The rows of one table; None, with a note, for a table without labels that is not `required`.

    Raises:
        UserError: a column is missing or holds a list, a label is empty, or more than 5 % of the texts are empty.
    """
    skip_first = columns.header and table.columns is None
    names = column_names(table, columns.header)
    # A test file without labels has fewer columns, which are counted where there is no header.
    needed = [columns.label] if columns.header else [columns.label, columns.text]
    if not required and (missing := [name for name in needed if name not in names]):
        _refuse_bare(table, columns, names)
        notes.append(f"{table.path.name} has no labels ({missing[0]!r} is missing), so it is not used")
        return None
    for name in (columns.text, columns.pair, columns.label):
        if name is not None and name not in names:
            raise UserError(f"{table.path} has no column {name!r}: found {', '.join(names)}")
        if name in table.nested:
            where = table.where(table.nested[name])
            raise UserError(f"{where} has a list or an object in column {name!r}: text or a number was expected")
    text, label = names.index(columns.text), names.index(str(columns.label))
    pair = names.index(columns.pair) if columns.pair is not None else None
    rows, empty = [], []
    for index in range(1 if skip_first else 0, len(table.records)):
        record, where = table.records[index], table.where(index)
        row = Row(
            clean(record[text], where, oddities),
            clean(record[pair], where, oddities) if pair is not None else None,
            record[label].strip(),
            table.path.name,
            table.lines[index],
        )
        if not row.text or row.pair == "":
            empty.append(where)
        elif not row.label:
            raise UserError(f"{where} has no label in column {columns.label!r}: every row needs one")
        else:
            rows.append(row)
    refuse_many_empty(empty, len(rows), notes)
    return rows


def _refuse_bare(table: Table, columns: Columns, names: list[str]) -> None:
    """Refuse a part without header beside a training file that has one: its rows would not be used, labels or not."""
    strange = not {columns.text, columns.pair, columns.label} & set(names)
    if strange and columns.header and not has_header(table, Asked()):
        raise UserError(
            f"{table.path}:1 has no header, and the training file has one: put the names of the columns "
            f"({', '.join(filter(None, (columns.text, columns.pair, columns.label)))}) above its rows"
        )
