"""Task rows between reading and checking: what every reader returns and `teacher.data` turns into a TaskData."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One row as read; `label` is the class name or the number as written."""

    text: str
    pair: str | None
    label: str
    file: str
    line: int
    """Where it stands, for messages; counted from 1."""
    detail: Any = None
    """What some kinds of task have beside text and label: see the kind's reader."""


@dataclass(kw_only=True)
class RawTask:
    """Rows of a task by part, with what is known about it."""

    name: str
    parts: dict[str, list[Row]]
    """ "train", "dev", "test" as found (a single file is "train"); or the splits "train", "select", "evaluate"."""
    origins: dict[str, str]
    """Part to file or hub split."""
    sources: dict[str, str]
    notes: list[str] = field(default_factory=list)
    kind: str | None = None
    """A key of teacher.tasks.TASKS; None: classification or regression, found from the labels."""
    labels: tuple[str, ...] | None = None
    """Class names in index order; None: found from the labels."""
    metric: str | None = None
    """None: accuracy, or pearson_spearman for regression."""
    label_column: str = "label"
    """For messages."""
    group: Callable[[Row], str] | None = None
    """Rows of one group are held out together; None: each row alone."""
    key: Callable[[Row], Hashable] | None = None
    """What must not be equal in two splits, where that is more than the texts."""
