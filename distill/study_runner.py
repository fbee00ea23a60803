"""What runs a study's trials: one at a time, each with its settings, its reason to end and its time written down."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import optuna

from common.errors import UserError
from common.files import write_json
from common.progress import say
from distill.study_config import StudyConfig
from distill.study_space import Space, Value, drawn
from distill.study_storage import OWNER, SLOT, SURPLUS, first_attempt, owner
from teacher.data import TaskData

SETTINGS, REASON, SECONDS = "settings", "reason", "seconds"
"""User attributes of a trial: every part's value; why it ended early; its time."""
TRIAL = "trial.json"
"""In the folder of a trial: its number and its settings."""


class SurplusError(Exception):
    """A trial beside the queue: another worker took the last slot in the same moment."""


class StoppedError(BaseException):
    """The user stopped the command within a trial.

    Of a KeyboardInterrupt optuna would write down that the trial failed; this leaves it as it is.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Trials(Protocol):
    """What all trials of a study have in common, be they students or fine-tunings of a teacher."""

    @property
    def config(self) -> StudyConfig: ...

    @property
    def folder(self) -> Path: ...

    @property
    def space(self) -> Space: ...

    @property
    def data(self) -> TaskData: ...

    @property
    def origin(self) -> str:
        """Of the teacher, in words."""

    @property
    def teacher_score(self) -> float | None:
        """On the selection split, higher better; None where the teacher is what is searched."""

    @property
    def shares(self) -> tuple[float, ...]:
        """Of a whole training, after which a trial is looked at; the last is 1."""

    @property
    def latency_length(self) -> int:
        """Pieces of the text that latency is measured on."""

    def run(self, study: optuna.Study, trial: optuna.Trial, settings: Mapping[str, Value], folder: Path) -> list[float]:
        """The values of a trial, whose files lie in `folder`; raises TrialPruned where it is given up."""


def objective(bench: Trials, study: optuna.Study, trial: optuna.Trial) -> list[float]:
    """The values of a trial.

    Raises:
        TrialPruned: it is given up.
        SurplusError: it has no slot.
        StoppedError: the user wants no more of it now.
    """
    if SLOT not in trial.user_attrs:
        trial.set_user_attr(SURPLUS, True)
        raise SurplusError
    trial.set_user_attr(OWNER, owner())
    started = time.monotonic()
    settings = drawn(bench.space, trial)
    trial.set_user_attr(SETTINGS, settings)
    folder = bench.folder / "trials" / str(first_attempt(study, trial.number))
    write_json(folder / TRIAL, {"trial": trial.number, "settings": settings})
    try:
        return bench.run(study, trial, settings, folder)
    except UserError as error:
        trial.set_user_attr(REASON, str(error))
        raise
    except KeyboardInterrupt:
        raise StoppedError(trial.number) from None
    finally:
        trial.set_user_attr(SECONDS, time.monotonic() - started)


def give_up(trial: optuna.Trial, reason: str) -> None:
    """End the trial here."""
    trial.set_user_attr(REASON, reason)
    say(f"trial {trial.number}: {reason}")
    raise optuna.TrialPruned
