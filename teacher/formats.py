"""Files that are no tables of texts and labels: which kind of task they hold, and who reads them."""

from collections.abc import Callable, Mapping
from pathlib import Path

from teacher import choice_columns, choices, conll, label_sets, squad, tag_objects
from teacher.columns import Asked
from teacher.raw import RawTask
from teacher.readers import EXTENSIONS as TABLES

Load = Callable[[str, Mapping[str, Path], Asked], RawTask]
"""From the task's name, its files by part, and the columns that the user named, to its rows."""

EXTENSIONS = (*TABLES, *conll.EXTENSIONS)
"""Of data files."""

FORMATS: dict[str, tuple[Callable[[Path], bool], Load]] = {
    "tags in columns": (conll.matches, conll.load),
    "tags in objects": (tag_objects.matches, tag_objects.load),
    "questions": (squad.matches, squad.load),
    "choices": (choice_columns.matches, choices.load),
    "sets of labels in objects": (label_sets.matches, label_sets.load),
}
"""Name to: whether a training file looks like it, by its first lines, and who reads such files."""


def own_format(file: Path, asked: Asked) -> Load | None:
    """Who reads files like this one, as the user wants them; None for a table of texts and labels."""
    if label_sets.wanted(asked):
        return label_sets.load
    return next((load for matches, load in FORMATS.values() if matches(file)), None)
