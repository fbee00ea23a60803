"""Data sets of the hub with more than a text and a label a row: words and tags, sets of labels, answers, choices.

Each split is written as json lines, with names for class labels, and read as files of these kinds are.
"""

import dataclasses
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from common.errors import UserError
from teacher.columns import Asked
from teacher.formats import Load, own_format
from teacher.raw import RawTask
from teacher.tag_objects import TAGS, WORDS

Reader = Callable[[Any], Any]
"""From a value as the library gives it to one that json has, class labels by name."""


def load_lists(name: str, data: Any, splits: Mapping[str, str], asked: Asked) -> RawTask | None:
    """The rows of a DatasetDict; None where they are texts with one label each.

    Args:
        name: of the task.
        data: split to its rows.
        splits: part ("train", "dev", "test") to its split.
        asked: the columns that the user named; of words and tags any two columns of lists.

    Raises:
        UserError: what the reader of such files says, with NAME:SPLIT:ROW in the place of file and line.
    """
    tagged = _words_and_tags(data[splits["train"]].features, asked)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        load = _reader_of(folder / "first.jsonl", data[splits["train"]], tagged, asked)
        if load is None:
            return None
        used = {part: split for part, split in splits.items() if part == "train" or not _unlabelled(data[split])}
        files = {part: folder / f"{split}.jsonl" for part, split in used.items()}
        for part, split in used.items():
            _write(files[part], data[split], tagged)
        try:
            raw = load(name, files, Asked(kind=asked.kind) if tagged else asked)
        except UserError as error:
            raise UserError(_by_split(str(error), name, files)) from error
    return _of_hub(raw, name, data, splits, used, files)


def _reader_of(file: Path, train: Any, tagged: tuple[str, str] | None, asked: Asked) -> Load | None:
    """Who reads rows like the first one."""
    _write(file, train.select(range(min(1, len(train)))), tagged)
    return own_format(file, asked)


def _words_and_tags(features: Mapping[str, Any], asked: Asked) -> tuple[str, str] | None:
    """The columns of words and of tags, where the user named one that is a list beside a list of words."""
    lists = [name for name, feature in features.items() if _element(feature) is not None]
    words = asked.text or next((name for name in WORDS if name in lists), None)
    tags = asked.label or next((name for name in TAGS if name in lists), None)
    named = asked.text is not None or asked.label is not None
    return (words, tags) if named and words in lists and tags in lists and asked.pair is None else None


def _write(file: Path, rows: Any, tagged: tuple[str, str] | None) -> None:
    readers = {name: _reader(feature) for name, feature in rows.features.items()}
    with file.open("w", encoding="utf-8") as stream:
        for row in rows:
            value = {name: readers[name](entry) for name, entry in row.items()}
            if tagged is not None:
                value = {WORDS[0]: value[tagged[0]], TAGS[0]: value[tagged[1]]}
            stream.write(json.dumps(value, ensure_ascii=False, default=str) + "\n")


def _reader(feature: Any) -> Reader:
    names, element = getattr(feature, "names", None), _element(feature)
    if names:
        return lambda value: names[value] if value is not None and value >= 0 else None
    if element is not None:
        inner = _reader(element)
        return lambda value: None if value is None else [inner(entry) for entry in value]
    if isinstance(feature, dict):
        parts = {name: _reader(part) for name, part in feature.items()}
        return lambda value: None if value is None else {name: parts[name](entry) for name, entry in value.items()}
    return lambda value: value


def _element(feature: Any) -> Any:
    """What a list holds; None for what is no list."""
    return feature[0] if isinstance(feature, list) else getattr(feature, "feature", None)


def _unlabelled(rows: Any) -> bool:
    """Whether there are columns of class labels, or of lists of them, and none of them holds one."""
    classes = [name for name, feature in rows.features.items() if _class_names(feature)]
    return bool(classes) and not any(_holds(value) for name in classes for value in rows[name])


def _class_names(feature: Any) -> Any:
    element = _element(feature)
    return getattr(feature, "names", None) if element is None else getattr(element, "names", None)


def _holds(value: Any) -> bool:
    entries = value if isinstance(value, list) else [value]
    return any(entry is not None and entry >= 0 for entry in entries)


def _of_hub(
    raw: RawTask,
    name: str,
    data: Any,
    splits: Mapping[str, str],
    used: Mapping[str, str],
    files: Mapping[str, Path],
) -> RawTask:
    """What was read, with splits in the place of files."""
    raw.notes = [_by_split(note, name, files) for note in raw.notes]
    left_out = [split for split in splits.values() if split not in used.values()]
    raw.notes += [f"{split} of the hub has no labels, so it is not used" for split in left_out]
    raw.origins = {part: f"{used[part]} of the hub" for part in raw.parts}
    raw.sources = {used[part]: str(data[used[part]]._fingerprint) for part in raw.parts}
    raw.parts = {
        part: [dataclasses.replace(row, file=f"{name}:{used[part]}") for row in rows]
        for part, rows in raw.parts.items()
    }
    return raw


def _by_split(text: str, name: str, files: Mapping[str, Path]) -> str:
    for file in files.values():
        text = text.replace(str(file), f"{name}:{file.stem}").replace(file.name, f"{name}:{file.stem}")
    return text
