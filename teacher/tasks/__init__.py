"""The kinds of task: one file each, one line here."""

from common.errors import unknown_name
from teacher.data import TaskData
from teacher.tasks.base import Task
from teacher.tasks.choices import Choices
from teacher.tasks.multilabel import MultiLabel
from teacher.tasks.questions import Questions
from teacher.tasks.sequence import Classification, Regression
from teacher.tasks.tags import Tags

TASKS: dict[str, type[Task]] = {
    "classification": Classification,
    "regression": Regression,
    "multilabel": MultiLabel,
    "tags": Tags,
    "questions": Questions,
    "choices": Choices,
}


def task_for(data: TaskData) -> Task:
    """The task object that knows how to encode, score and decode `data`."""
    if data.kind not in TASKS:
        raise unknown_name("kind of task", data.kind, TASKS)
    return TASKS[data.kind](data)
