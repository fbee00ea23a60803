"""The folder of a study: whose it is, and who uses it."""

import fcntl
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import optuna

from common.errors import UserError
from common.files import write_text
from distill.study_runner import SETTINGS, TRIAL
from teacher.ready import CLAIM as BY_TOOLS

ID = "id"
"""User attribute of a study that no other has, by which its folders go."""
CLAIM = "study.id"
OTHERS = ("record.json", "ablation.json", "config.json", BY_TOOLS, "ablate.json")
"""In the folders of other commands, from their start on: of what is not finished there is no record."""


def made(folder: Path) -> Path:
    """The folder, which is there afterwards.

    Raises:
        UserError: it is another run's, or cannot be made.
    """
    if any((folder / name).exists() for name in OTHERS):
        raise UserError(f"{folder} holds another run: choose another --name")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be made ({error.strerror}): choose another --name or --runs") from error
    return folder


def claim(folder: Path, study: optuna.Study) -> None:
    """Take `folder` for the study. For one process at a time.

    What is finished in a folder is read again instead of being made again, so it has to be this study's. Folders from
    before there were claims are taken where all of their trials are trials of the study.

    Raises:
        UserError: it holds the trials of another study, which stay as they are.
    """
    if ID not in study.user_attrs:
        study.set_user_attr(ID, uuid.uuid4().hex)
    own, marker = study.user_attrs[ID], folder / CLAIM
    ours = marker.read_text(encoding="utf-8").strip() == own if marker.is_file() else _all_of(study, folder)
    if not ours:
        raise UserError(
            f"{folder} holds trials of another study, kept in another --storage or nowhere any more: repeat that "
            "--storage, choose another --name, or remove the folder"
        )
    write_text(marker, own + "\n")


@contextmanager
def used(folder: Path, *, at_last: Callable[[Path], None]) -> Iterator[None]:
    """Hold the folder beside other commands of this machine on the same study; who is alone at a good end tidies up.

    `at_last` is given the folder; no other command begins to use it meanwhile.
    """
    with (folder / ".users").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        at_last(folder)


def _all_of(study: optuna.Study, folder: Path) -> bool:
    """Whether the study knows every trial in the folder with the settings that it has there."""
    known = {trial.number: trial.user_attrs.get(SETTINGS) for trial in study.get_trials(deepcopy=False)}
    found = (json.loads(path.read_text(encoding="utf-8")) for path in folder.glob(f"trials/*/{TRIAL}"))
    return all(known.get(value["trial"]) == value["settings"] for value in found)
