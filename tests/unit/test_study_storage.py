"""A slot of a study is one trial, whatever becomes of those who try it."""

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest

from common.errors import UserError
from distill.study_config import SearchOptions, StudyConfig
from distill.study_objectives import RUNGS, directions, given_up, pruner
from distill.study_storage import OWNER, SLOT, first_attempt, open_storage, owner, revive, slots, top_up
from distill.study_workers import work

DEAD = f"{socket.gethostname()}:4194304:1.00"
"""A process of this machine that there is none of."""


def study_of(folder: Path, trials: int, **options: object) -> optuna.Study:
    """A study with so many slots waiting."""
    study = optuna.create_study(study_name="s", storage=open_storage(str(folder / "trials.log"), folder), **options)  # type: ignore[arg-type]
    top_up(study, trials)
    return study


@pytest.mark.parametrize("text", ["a log of mine", "a log\nof mine\n", '{"a": 1}\n{"b": 2}\n', "[1]\n"])
def test_a_file_of_something_else_is_refused_and_stays_as_it_is(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine.log").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"--storage .*mine\.log: the file holds something else than trials"):
        open_storage(str(tmp_path / "mine.log"), tmp_path)
    assert (tmp_path / "mine.log").read_text(encoding="utf-8") == text


def test_a_journal_whose_last_line_is_cut_off_is_not_written_to(tmp_path: Path) -> None:
    study_of(tmp_path, 2)
    journal = tmp_path / "trials.log"
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-5])
    with pytest.raises(UserError, match="the last line of the file is cut off, perhaps by a full disk: remove that"):
        open_storage(f"journal:{journal}", tmp_path)
    assert journal.read_bytes() == whole[:-5]
    journal.write_bytes(whole[: whole.rindex(b"\n", 0, -1) + 1])
    assert len(optuna.load_study(study_name="s", storage=open_storage(str(journal), tmp_path)).trials) >= 1


def test_a_slot_that_was_queued_again_is_nobodys_until_a_worker_says_it_is_its_own(tmp_path: Path) -> None:
    study = study_of(tmp_path, 1)
    study.ask().set_user_attr(OWNER, DEAD)
    assert revive(study) == 1
    taken = study.ask()
    assert taken.user_attrs == {SLOT: True}
    # Another command looks for dead workers while the sampler of this one draws.
    assert revive(study) == 0
    assert [trial.number for trial in slots(study)] == [taken.number]


def test_a_trial_that_the_user_stops_is_gone_on_with_and_has_not_failed(tmp_path: Path) -> None:
    study = study_of(tmp_path, 2)
    folders = []

    def run(study: optuna.Study, trial: optuna.Trial, settings: Any, folder: Path) -> list[float]:
        folders.append(folder.name)
        if len(folders) == 2:
            raise KeyboardInterrupt
        return [0.5]

    bench: Any = SimpleNamespace(
        config=StudyConfig(storage=str(tmp_path / "trials.log")), folder=tmp_path, space={}, run=run
    )
    with pytest.raises(KeyboardInterrupt):
        work(bench, "s", None)
    assert [trial.state.name for trial in slots(study)] == ["COMPLETE", "WAITING"]
    work(bench, "s", None)
    assert [trial.state.name for trial in slots(study)] == ["COMPLETE"] * 2
    assert folders == ["0", "1", "1"], "it goes on in its own folder"
    assert first_attempt(study, slots(study)[-1].number) == 1


def test_a_trial_may_be_stopped_as_often_as_one_likes_and_its_workers_may_die_three_times(tmp_path: Path) -> None:
    study = study_of(tmp_path, 1)
    again = []
    for stopped in (True, True, False, True, True, False, True, False, True):
        taken = study.ask()
        taken.set_user_attr(OWNER, DEAD)
        again.append(revive(study, stopped=stopped))
    assert again == [1] * 9
    study.ask().set_user_attr(OWNER, DEAD)
    assert revive(study) == 0, "a fourth worker died of it"
    assert [trial.state.name for trial in slots(study)] == ["FAIL"]


def test_a_trial_that_was_cut_off_and_queued_again_beats_another_once(tmp_path: Path) -> None:
    options = SearchOptions(objective="accuracy,latency")
    study = study_of(tmp_path, 3, directions=directions(options))

    def better(owner: str) -> None:
        trial = study.ask()
        for name, value in ((OWNER, owner), (RUNGS, [0.9]), ("latency_ms", 1.0)):
            trial.set_user_attr(name, value)

    better(DEAD)
    assert revive(study) == 1
    own = study.ask()
    own.set_user_attr("latency_ms", 2.0)
    assert not given_up(options, study, own, 0, 0.8), "two attempts are one better trial"
    better(owner())
    assert given_up(options, study, own, 0, 0.8)


def test_halving_counts_a_trial_that_was_cut_off_and_queued_again_once(tmp_path: Path) -> None:
    options = SearchOptions()
    study = study_of(tmp_path, 1, direction="maximize")
    study.pruner = pruner(options)

    def stops(score: float) -> bool:
        trial = study.ask()
        trial.set_user_attr(OWNER, DEAD if score == 0.9 else owner())
        return given_up(options, study, trial, 0, score)

    assert not stops(0.9)
    assert revive(study) == 1
    study.ask().set_user_attr(OWNER, owner())
    top_up(study, 6)
    assert [stops(score) for score in (0.1, 0.2, 0.3, 0.4)] == [True] * 4
    assert not stops(0.8), "it is the second of six, of whom two go on"
