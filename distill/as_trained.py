"""A task read as a model was trained to read it, by commands that learn from the model or make it smaller."""

import dataclasses
from pathlib import Path
from typing import TypeVar

from common.errors import UserError
from common.families import max_length as longest
from common.heads import head_of
from common.progress import say
from distill.config import RunConfig
from distill.predict_models import CONFIG, read_config, trained_length
from distill.study_config import StudyConfig
from teacher.data import TaskData
from teacher.options import SHORTEST, TaskOptions
from teacher.sources import read_config as model_config
from teacher.sources import resolve
from teacher.tasks import TASKS
from teacher.tasks.texts import TextTask
from teacher.windows import LONG, STRIDE

Config = TypeVar("Config", RunConfig, StudyConfig)


def with_task(config: Config) -> tuple[Config, TaskData]:
    """The task, read as the teacher was trained to read it if it is a folder with a head for such a task, and the
    settings that say so.

    Raises:
        UserError: as `as_trained` does, and what loading the task raises.
    """
    data = config.data.load()
    if not Path(config.teacher).is_dir():
        return config, data
    folder = Path(resolve(config.teacher))
    if head_of(read_config(folder).get("architectures")) != TASKS[data.kind].head_kind:
        return config, data
    data = as_trained(data, config.teacher)
    return dataclasses.replace(config, data=options_as_trained(config.data, data, config.teacher)), data


def options_as_trained(options: TaskOptions, data: TaskData, source: str) -> TaskOptions:
    """The options by which `data` is read: its --long and --stride, and the --max-length that the model in the folder
    `source` was trained with, unless another than the default was given. Either is said.

    Raises:
        UserError: --stride is more than a third of the length.
    """
    folder = Path(resolve(source))
    given, trained = options.max_length, trained_length(folder)
    length = given
    if trained is not None and trained >= SHORTEST and trained != min(given, longest(model_config(str(folder)))):
        default = given == TaskOptions.max_length
        length = trained if default else given
        say(
            f"texts are read as {source} was trained to: --max-length {trained}"
            if default
            else f"note: --max-length {given}: {source} was trained with --max-length {trained}"
        )
    return dataclasses.replace(options, long=data.long, stride=data.stride, max_length=length)


def as_trained(data: TaskData, source: str) -> TaskData:
    """The task with --long and --stride as the model in the folder `source` has them, where they were not given.

    Raises:
        UserError: they were given, and are others than the model's.
    """
    folder = Path(resolve(source))
    config = read_config(folder) if (folder / CONFIG).is_file() else {}
    long, stride = config.get(LONG) or "truncate", config.get(STRIDE)
    plain = long == "truncate" and stride is None
    if plain or (data.long, data.stride) == (long, stride):
        return data
    options = _options(long, stride)
    if (data.long, data.stride) != ("truncate", None):
        raise UserError(
            f"{_options(data.long, data.stride)}: {source} was trained with {options}: leave the options out, and it "
            "is read so"
        )
    if long != "truncate" and (not issubclass(TASKS[data.kind], TextTask) or data.paired):
        raise UserError(f"{source} was trained with {options} on single texts: give it a task of such texts")
    say(f"texts are read as {source} was trained to: {options}")
    return dataclasses.replace(data, long=long, stride=stride)


def _options(long: str, stride: int | None) -> str:
    given = [f"--long {long}"] if long != "truncate" else []
    return " ".join([*given, *([] if stride is None else [f"--stride {stride}"])])
