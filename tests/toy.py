"""A task of a few rows that stand in every split, for tests of what is done with a task."""

from collections.abc import Sequence

from teacher.data import Example, TaskData
from teacher.tasks import task_for
from teacher.tasks.base import Task


def toy_task(kind: str = "classification", texts: Sequence[str] = (), *, rows: int = 9) -> Task:
    """Three classes in turn, "a", "b" and "c", or their numbers; `texts` in turn, or numbered ones."""
    chosen = texts or [f"text {index}" for index in range(rows)]
    examples = tuple(Example(chosen[index % len(chosen)], None, index % 3) for index in range(rows))
    return task_for(
        TaskData(
            name="toy",
            kind=kind,
            labels=("a", "b", "c") if kind == "classification" else (),
            metric="accuracy",
            origins={},
            fingerprint="0",
            sources={},
            splits=dict.fromkeys(("train", "select", "evaluate"), examples),
        )
    )
