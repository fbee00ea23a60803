"""The folders of pretraining: the unfinished one that a resumed run goes on from, and the name of the finished one."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.files import new_folder, read_object, sole_use, write_json
from common.keys import short_key
from common.pretraining_record import FILE as DONE
from teacher.ranks import from_main, ranks

PLAN = "plan.json"
MODEL = "model"
"""Inside the unfinished folder: what is finished, until it has its name."""
_NONE = "none"
"""What a message calls the value of a setting that is not there."""


@dataclass(frozen=True)
class Work:
    """The folder of a run that is not finished."""

    folder: Path

    def steps(self, decide: Callable[[], int]) -> int:
        """Steps of the whole run: decided once, and the same after every interruption and in all processes."""
        steps = from_main(lambda: _read(self.folder / PLAN).get("steps"))
        if steps is None:
            decided = decide()
            steps = from_main(lambda: self._keep(decided))
        return int(steps)

    @contextlib.contextmanager
    def unless_refused(self) -> Iterator[None]:
        """A UserError before anything is kept leaves no folder behind: the command can be given again, corrected."""
        try:
            yield
        except UserError:
            if ranks().is_main_process and {entry.name for entry in self.folder.glob("[!.]*")} == {PLAN}:
                shutil.rmtree(self.folder)
            raise

    @contextlib.contextmanager
    def finished(self, folder: Path) -> Iterator[Path]:
        """A folder to write, which becomes `folder` when the block ends well; then this one is dropped.

        Raises:
            UserError: `folder` is no longer absent or empty. What was written stays, and the message says where.
        """
        model = self.folder / MODEL
        with new_folder(model) as target:
            yield target
        try:
            # It takes the place of an empty folder, and of nothing else.
            os.rename(model, folder)
        except OSError as error:
            raise UserError(
                f"--out {folder} cannot become the finished model ({error.strerror}; it was empty when this began): "
                f"the model is in {model}. Move it to where you want it, then delete {self.folder}"
            ) from error
        shutil.rmtree(self.folder)

    def _keep(self, steps: int) -> int:
        write_json(self.folder / PLAN, _read(self.folder / PLAN) | {"steps": steps})
        return steps


def reusable(folder: Path, identity: Mapping[str, Any], done: str = DONE) -> bool:
    """Whether `folder` holds the finished model of these settings, by its file `done`.

    Raises:
        UserError: it holds something else.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    if not (folder / done).is_file():
        raise UserError(f"--out {folder} holds something else: choose another folder")
    found = _read(folder / done).get("settings", {})
    if found != dict(identity):
        raise UserError(
            f"--out {folder} holds a model of other settings ({_differences(found, identity)}): choose another folder"
        )
    return True


@contextlib.contextmanager
def sole_work(folder: Path, identity: Mapping[str, Any], done: str = DONE) -> Iterator[bool]:
    """Hold FOLDER-unfinished for this run alone, in the first process; whether `folder` is to be made.

    Another run that holds it is waited for, and may have made what is asked for.

    Raises:
        UserError: as `reusable`.
    """

    def needed() -> bool:
        return not from_main(lambda: reusable(folder, identity, done))

    with contextlib.ExitStack() as stack:
        if needed():
            from_main(lambda: stack.enter_context(_held(unfinished(folder))))
            yield needed()
        else:
            yield False


@contextlib.contextmanager
def _held(work: Path) -> Iterator[None]:
    """Within `sole_use`; what holds nothing afterwards is removed."""
    with sole_use(work, wait=True):
        try:
            yield
        finally:
            if not any(work.glob("[!.]*")):
                shutil.rmtree(work, ignore_errors=True)


def own_folder(folder: Path, identity: Mapping[str, Any]) -> Path:
    """`folder`, or, where that is of other settings, finished or not, one beside it, named with a key over these."""
    places = (folder / DONE, unfinished(folder) / PLAN)
    if all(_read(place).get("settings") == dict(identity) for place in places if place.is_file()):
        return folder
    key = short_key(dict(identity))
    return folder.with_name(f"{folder.name}-{key}")


def refuse_inside(tensorboard: Path, folder: Path) -> None:
    """Raise UserError where `tensorboard` is in `folder` or FOLDER-unfinished, which must hold nothing else."""
    for home in (folder, unfinished(folder)):
        if tensorboard.resolve().is_relative_to(home.resolve()):
            raise UserError(
                f"--tensorboard {tensorboard} is inside {home}, which holds the model alone: choose a folder beside "
                f"it, such as {folder}-curves"
            )


def unfinished(folder: Path) -> Path:
    """Where the run is that will become `folder`; raises UserError for one without a name of its own."""
    if not folder.name:
        raise UserError(f"--out {folder}: a new folder is made, so give it a name, such as {folder / 'model'}")
    return folder.with_name(f"{folder.name}-unfinished")


def open_work(folder: Path, identity: Mapping[str, Any], *, resume: bool) -> Work:
    """FOLDER-unfinished, new or of an interrupted run of equal settings.

    Raises:
        UserError: it is there and `resume` is off, or is of other settings or something else.
    """
    work = unfinished(folder)
    # What starts with a dot is the rest of a write that was cut off.
    if not work.exists() or not any(entry for entry in work.iterdir() if not entry.name.startswith(".")):
        write_json(work / PLAN, {"settings": dict(identity), "steps": None})
        return Work(work)
    if not (work / PLAN).is_file():
        raise UserError(f"{work} holds something else: choose another --out")
    found = _read(work / PLAN).get("settings", {})
    if found != dict(identity):
        raise UserError(
            f"{work} is an interrupted run of other settings ({_differences(found, identity)}): repeat its settings, "
            "choose another --out, or delete it"
        )
    if not resume:
        raise UserError(
            f"{work} is an interrupted run of these settings: go on with --resume, or delete it to start again"
        )
    return Work(work)


def read_summary(folder: Path) -> dict[str, Any]:
    """What a finished pretraining says of itself: its settings and figures."""
    return _read(folder / DONE)


def _read(path: Path) -> dict[str, Any]:
    return read_object(path, advice="delete its folder, or choose another --out")


def _differences(found: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """In words; newer options are among the settings only where they are not at their default."""
    pairs = {name: (found.get(name, _NONE), asked.get(name, _NONE)) for name in {**asked, **found}}
    return ", ".join(f"{name} {old} there, {new} asked for" for name, (old, new) in pairs.items() if old != new)
