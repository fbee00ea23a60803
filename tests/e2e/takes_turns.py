"""A worker of test_study.py: takes trials from the store in the first argument until none waits."""

import os
import sys
import time
from pathlib import Path

import optuna

from distill.study_storage import OWNER, SLOT, open_storage, owner, waiting


def objective(trial: optuna.Trial) -> float:
    """One trial, with what the trials of a study write down."""
    if SLOT not in trial.user_attrs:
        raise ValueError
    trial.set_user_attr(OWNER, owner())
    trial.report(1.0, 1)
    return trial.suggest_float("x", 0, 1)


def work(place: str, ready: Path) -> None:
    """Begin when two workers have left a file in `ready`."""
    study = optuna.load_study(study_name="s", storage=open_storage(place, Path()))
    (ready / str(os.getpid())).touch()
    while len(os.listdir(ready)) < 2:
        time.sleep(0.001)
    while waiting(study):
        study.optimize(objective, n_trials=1, catch=(ValueError,))


if __name__ == "__main__":
    work(sys.argv[1], Path(sys.argv[2]))
