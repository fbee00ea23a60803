"""A slot of a study is one trial, whatever becomes of those who try it."""

import socket
from pathlib import Path

import optuna

from distill.study_storage import OWNER, SLOT, open_storage, revive, slots, top_up

DEAD = f"{socket.gethostname()}:4194304:1.00"
"""A process of this machine that there is none of."""


def study_of(folder: Path, trials: int, **options: object) -> optuna.Study:
    """A study with so many slots waiting."""
    study = optuna.create_study(study_name="s", storage=open_storage(str(folder / "trials.log"), folder), **options)  # type: ignore[arg-type]
    top_up(study, trials)
    return study


def test_a_slot_that_was_queued_again_is_nobodys_until_a_worker_says_it_is_its_own(tmp_path: Path) -> None:
    study = study_of(tmp_path, 1)
    study.ask().set_user_attr(OWNER, DEAD)
    assert revive(study) == 1
    taken = study.ask()
    assert taken.user_attrs == {SLOT: True}
    # Another command looks for dead workers while the sampler of this one draws.
    assert revive(study) == 0
    assert [trial.number for trial in slots(study)] == [taken.number]
