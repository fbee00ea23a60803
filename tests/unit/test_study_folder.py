"""Whose the folder of a study is."""

from pathlib import Path

import optuna
import pytest

from common.errors import UserError
from common.files import write_json
from distill.study_folder import CLAIM, claim, made, used
from distill.study_runner import SETTINGS, TRIAL
from teacher.ready import CLAIM as BY_TOOLS


def study_of(*settings: dict[str, object]) -> optuna.Study:
    """A study in a store of its own with finished trials of these settings."""
    study = optuna.create_study()
    for entry in settings:
        study.add_trial(optuna.create_trial(value=1.0, user_attrs={SETTINGS: entry}))
    return study


def filled(folder: Path, *settings: dict[str, object]) -> Path:
    """A folder with what such trials leave."""
    for number, entry in enumerate(settings):
        write_json(folder / "trials" / str(number) / TRIAL, {"trial": number, "settings": entry})
    return folder


@pytest.mark.parametrize("name", ["taken", "taken/s"])
def test_a_file_in_the_place_of_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine", encoding="utf-8")
    with pytest.raises(UserError, match=r"taken.* cannot be made \(.*\): choose another --name or --runs"):
        made(tmp_path / name)
    assert (tmp_path / "taken").read_text(encoding="utf-8") == "mine"


def test_a_folder_is_one_studys_and_stays_that(tmp_path: Path) -> None:
    first, other = study_of(), study_of()
    write_json(tmp_path / "yardstick.json", {"preset": 2.0})
    claim(tmp_path, first)
    claim(filled(tmp_path, {"layers": 2}), first)
    held = (tmp_path / CLAIM).read_text(encoding="utf-8")
    with pytest.raises(UserError, match=f"{tmp_path} holds trials of another study.*--storage.*--name.*remove"):
        claim(tmp_path, other)
    assert (tmp_path / CLAIM).read_text(encoding="utf-8") == held
    claim(tmp_path / "on-another-machine", first)
    assert (tmp_path / "on-another-machine" / CLAIM).read_text(encoding="utf-8") == held


def test_a_folder_without_a_claim_is_taken_where_the_study_knows_its_trials(tmp_path: Path) -> None:
    settings = [{"layers": 2, "rate_factor": 1 / 3}, {"layers": 3, "rate_factor": 1.0}]
    folder = filled(tmp_path / "s", *settings)
    for study in (study_of(), study_of(settings[0]), study_of(settings[0], {"layers": 3, "rate_factor": 2.0})):
        with pytest.raises(UserError, match="holds trials of another study"):
            claim(folder, study)
        assert not (folder / CLAIM).exists()
    claim(folder, study_of(*settings, {"layers": 4, "rate_factor": 1.0}))
    assert (folder / CLAIM).is_file()


def test_the_last_command_to_end_well_tidies_up(tmp_path: Path) -> None:
    tidied: list[Path] = []
    with used(tmp_path, at_last=tidied.append):
        with used(tmp_path, at_last=tidied.append):
            pass
        assert not tidied
        with pytest.raises(UserError, match="no"), used(tmp_path, at_last=tidied.append):
            raise UserError("no")
    assert tidied == [tmp_path]
    with pytest.raises(UserError, match="no"), used(tmp_path, at_last=tidied.append):
        raise UserError("no")
    assert tidied == [tmp_path]


@pytest.mark.parametrize("name", ["record.json", "config.json", "ablate.json", BY_TOOLS])
def test_the_folder_of_a_run_is_not_taken_finished_or_not(tmp_path: Path, name: str) -> None:
    write_json(tmp_path / "run" / name, {})
    with pytest.raises(UserError, match=f"{tmp_path / 'run'} holds another run: choose another --name"):
        made(tmp_path / "run")
    assert made(tmp_path / "study").is_dir()
