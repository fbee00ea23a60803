"""Tasks of the Hugging Face hub, through `datasets`, which is imported only when one is asked for."""

import bisect
import contextlib
import dataclasses
import re
import socket
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.words import counted
from teacher.columns import Asked, Columns, find_columns
from teacher.decoding import Oddities
from teacher.glue import GLUE
from teacher.hub_lists import load_lists
from teacher.local import PART_WORDS, read_rows
from teacher.raw import RawTask
from teacher.readers import Table, first_nested

GLUE_ON_THE_HUB = "nyu-mll/glue"
PREFIX = "hub:"
"""Before a hub id, which needs no guessing then; a name without an organisation is one too."""
_ID = re.compile(r"\w[\w.-]*(?:/\w[\w.-]*){0,2}")
NOT_THERE = "there is no such data set, or it is private"
UNREACHABLE = "the hub cannot be reached (no network, or offline mode), and its cache does not hold the data set"


def load_glue(name: str) -> RawTask:
    """A GLUE task from the hub, with its own columns, metric and class names."""
    task = GLUE[name]
    columns = Columns(text=task.hub_text or task.text, pair=task.hub_pair or task.pair, label="label", header=True)
    instead = f"Without a network use --task PATH or --data-dir with the {name} files"
    raw = _to_raw(name, _download(name, [(GLUE_ON_THE_HUB, name)], instead), columns)
    raw.metric, raw.labels, raw.kind = task.metric, task.labels, "classification" if task.labels else "regression"
    return raw


def load_hub(identifier: str, asked: Asked) -> RawTask:
    """A task by hub id: "org/name", "name/config" or "org/name/config".

    Rows are texts with a label; or what `teacher.formats` knows of json lines: words with tags, sets of labels,
    questions with answers, choices. Class labels have the names that the data set gives them.

    Raises:
        UserError: no such data set or no network; or it is not clear which columns to take.
    """
    *front, last = identifier.split("/")
    attempts: list[tuple[str, str | None]] = [(identifier, None)] if len(front) < 2 else []
    if front:
        attempts.append(("/".join(front), last))
    instead = "There is no file or folder of this name here either. Without a network use --task PATH"
    return _to_raw(last, _download(identifier, attempts, instead), None, asked)


def open_dataset(identifier: str, config: str | None, **options: Any) -> Any:
    """`datasets.load_dataset`, with its many kinds of failure as one.

    Raises:
        UserError: with the library's reason; or no such id can be.
    """
    _refuse_no_id(identifier)
    import datasets

    try:
        with offline_if_unreachable():
            return datasets.load_dataset(identifier, config, **options)
    except datasets.exceptions.DatasetNotFoundError as error:
        raise UserError(NOT_THERE) from error
    except ConnectionError as error:
        raise UserError(UNREACHABLE) from error
    except Exception as error:  # The library lets errors of its http client, file system and parsers through.
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        raise UserError(reason) from error


def dataset_revision(identifier: str) -> str | None:
    """The commit of a data set that the hub has now; None where it cannot be asked, or there is none.

    Raises:
        UserError: no such id can be.
    """
    _refuse_no_id(identifier)
    import huggingface_hub

    try:
        with offline_if_unreachable():
            return huggingface_hub.dataset_info(identifier).sha
    except Exception:  # errors of its http client come through; why is said where the data set is opened
        return None


def _refuse_no_id(identifier: str) -> None:
    if not _ID.fullmatch(identifier):
        raise UserError(f"{identifier!r} is no id of the hub: expected name or org/name")


@contextlib.contextmanager
def offline_if_unreachable() -> Iterator[None]:
    """Without a network the library tries for 24 s; in offline mode it looks into its cache and gives up at once."""
    import datasets.config
    import huggingface_hub.constants

    host = urllib.parse.urlsplit(huggingface_hub.constants.ENDPOINT).hostname
    if huggingface_hub.constants.HF_HUB_OFFLINE or urllib.request.getproxies() or _resolves(host):
        yield
        return
    modules: tuple[Any, ...] = (huggingface_hub.constants, datasets.config)
    before = [module.HF_HUB_OFFLINE for module in modules]
    try:
        for module in modules:
            module.HF_HUB_OFFLINE = True
        yield
    finally:
        for module, value in zip(modules, before, strict=True):
            module.HF_HUB_OFFLINE = value


def _resolves(host: str | None) -> bool:
    try:
        return bool(socket.getaddrinfo(host, 443))
    except OSError:
        return False


def _download(asked: str, attempts: list[tuple[str, str | None]], instead: str) -> Any:
    """The first reading of an id that names something. Of readings that name nothing the user need not hear."""
    failures: list[str] = []
    for identifier, config in attempts:
        try:
            return open_dataset(identifier, config)
        except UserError as error:
            failures.append(str(error).rstrip("."))
    telling = [failure for failure in failures if failure != NOT_THERE] or failures
    raise UserError(f"cannot load {asked!r} from the hub: {'; '.join(dict.fromkeys(telling))}. {instead}")


def _to_raw(name: str, data: Any, columns: Columns | None, asked: Asked | None = None) -> RawTask:
    """Splits of a DatasetDict as rows."""
    oddities = Oddities()
    splits = _parts(data)
    if columns is None and (listed := load_lists(name, data, splits, asked or Asked())) is not None:
        return listed
    raw = RawTask(name=name, parts={}, origins={}, sources={})
    for part in ("train", "dev", "test"):
        if part not in splits:
            continue
        split = splits[part]
        table = _table(f"{name}:{split}", data[split])
        columns = columns or find_columns(table, asked or Asked())
        raw.label_column = str(columns.label)
        label = columns.label
        if part != "train" and label in data[split].column_names and _unlabelled(data[split], label):
            raw.notes.append(f"{split} of the hub has no labels, so it is not used")
            continue
        if getattr(data[split].features.get(label), "names", None):
            table = _with_labels(table, label, split, raw.notes)
        rows = read_rows(table, columns, oddities, raw.notes, required=part == "train")
        if rows is not None:
            raw.parts[part], raw.origins[part] = rows, f"{split} of the hub"
            raw.sources[split] = str(data[split]._fingerprint)
    raw.notes.extend(oddities.notes())
    return raw


def _parts(data: Any) -> dict[str, str]:
    """Part to the hub's split name; "validation_matched" is a dev part, "..._mismatched" is none."""
    found: dict[str, str] = {}
    for split in data:
        word = split.split("_")[0].lower()
        if word in PART_WORDS and "mismatched" not in split:
            found.setdefault(PART_WORDS[word], split)
    if "train" not in found:
        raise UserError(f"the hub's data set has no train split: found {', '.join(data)}")
    return found


def _table(where: str, split: Any) -> Table:
    """Columns as text; class labels by name, those that are none (-1, as SNLI has where nobody agreed) empty."""
    columns: dict[str, list[str]] = {}
    nested: dict[str, int] = {}
    for column, feature in split.features.items():
        values = split[column][:]
        nested |= first_nested({column: values})
        names = getattr(feature, "names", None)
        if names:
            values = [names[value] if value is not None and value >= 0 else None for value in values]
        columns[column] = [_as_text(value) for value in values]
    records = [list(record) for record in zip(*columns.values(), strict=True)]
    lines = list(range(1, len(records) + 1))
    return Table(path=Path(where), sha256="", records=records, lines=lines, columns=list(columns), nested=nested)


def _with_labels(table: Table, label: str | None, split: str, notes: list[str]) -> Table:
    """Without the rows whose class is none, which nobody can correct in a data set of the hub."""
    place = table.columns.index(str(label)) if table.columns else 0
    kept = [index for index, record in enumerate(table.records) if record[place]]
    left = len(table.records) - len(kept)
    if not left:
        return table
    notes.append(f"{counted(left, 'row')} of {split} without a label left out")
    # Where a list stands is told by its record: a column with one is refused, and its place may be another now.
    nested = {name: bisect.bisect_left(kept, index) for name, index in table.nested.items()}
    return dataclasses.replace(
        table,
        records=[table.records[index] for index in kept],
        lines=[table.lines[index] for index in kept],
        nested={name: min(index, len(kept) - 1) for name, index in nested.items()},
    )


def _as_text(value: Any) -> str:
    return "" if value is None or value != value else str(value)


def _unlabelled(split: Any, label: str | None) -> bool:
    return all(value in (-1, None) for value in split[label])
