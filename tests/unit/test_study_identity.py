"""What all commands of a study must have in common."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import optuna
import pytest

from common.errors import UserError
from distill import study_identity
from distill.study_config import AfterOptions, StudyConfig
from distill.study_identity import WEIGHTS, opened
from distill.study_storage import open_storage
from distill.study_trial import run_config
from teacher.options import TaskOptions


@pytest.fixture
def config(tmp_path: Path) -> StudyConfig:
    """Of a study whose teacher is a folder with a file of weights."""
    teacher = tmp_path / "teacher"
    teacher.mkdir()
    (teacher / "config.json").write_text("{}", encoding="utf-8")
    (teacher / "model.safetensors").write_bytes(b"as it was")
    return StudyConfig(teacher=str(teacher), storage=str(tmp_path / "trials.log"))


def _opened(config: StudyConfig, tmp_path: Path) -> optuna.Study:
    data = SimpleNamespace(fingerprint="f")
    storage = open_storage(config.storage, tmp_path)
    return opened(config, "s", {}, data, storage, options=("student", "class_weights"))  # type: ignore[arg-type]


def test_a_study_is_of_one_teacher_and_one_precision(
    config: StudyConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study_identity, "resolve_precision", lambda precision: "fp32")
    _opened(config, tmp_path)
    _opened(dataclasses.replace(config, precision="fp32"), tmp_path)
    monkeypatch.setattr(study_identity, "resolve_precision", lambda precision: "bf16")
    with pytest.raises(UserError, match=r"study s was begun with other settings \(--precision\): repeat them"):
        _opened(config, tmp_path)
    monkeypatch.setattr(study_identity, "resolve_precision", lambda precision: "fp32")
    (tmp_path / "teacher" / "model.safetensors").write_bytes(b"trained again")
    with pytest.raises(UserError, match=r"was begun with other settings \(weights of --teacher\)"):
        _opened(config, tmp_path)


def test_classes_are_weighed_in_all_trials_or_in_none(config: StudyConfig, tmp_path: Path) -> None:
    _opened(config, tmp_path)
    with pytest.raises(UserError, match=r"with other settings \(--class-weights\)"):
        _opened(dataclasses.replace(config, class_weights="balanced"), tmp_path)
    assert run_config(dataclasses.replace(config, class_weights="balanced"), {}).changes.class_weights == "balanced"
    with pytest.raises(UserError, match="--class-weights balanced is for students"):
        StudyConfig(target="teacher", class_weights="balanced")


def test_long_texts_are_cut_alike_in_all_trials(config: StudyConfig, tmp_path: Path) -> None:
    _opened(config, tmp_path)
    cut = dataclasses.replace(config, data=TaskOptions(long="head+tail"))
    with pytest.raises(UserError, match=r"with other settings \(--long\)"):
        _opened(cut, tmp_path)
    with pytest.raises(UserError, match=r"with other settings \(--stride\)"):
        _opened(dataclasses.replace(config, data=TaskOptions(stride=32)), tmp_path)


def test_a_study_from_before_these_were_noted_goes_on_and_notes_them(config: StudyConfig, tmp_path: Path) -> None:
    noted = _opened(config, tmp_path).user_attrs["identity"]
    older = {key: value for key, value in noted.items() if key not in (WEIGHTS, "--long")} | {"--precision": "auto"}
    _opened(config, tmp_path).set_user_attr("identity", older | {"--fix": "None"})
    assert _opened(config, tmp_path).user_attrs["identity"] == noted
    _opened(config, tmp_path).set_user_attr("identity", older | {"--rungs": "5"})
    with pytest.raises(UserError, match=r"with other settings \(--rungs\)"):
        _opened(config, tmp_path)


@pytest.mark.parametrize(
    ("target", "after", "message"),
    [
        ("student", {"seeds": 5}, "--seeds 5 is for --confirm and --apply"),
        ("student", {"speed": False, "confirm": 1}, "--no-speed is for the run of --apply"),
        ("teacher", {"speed": False, "apply": "best"}, "--no-speed is for students"),
        ("teacher", {"seeds": 5, "apply": "best"}, "--seeds 5 is for --confirm with --target teacher"),
    ],
)
def test_options_of_what_is_not_done_are_refused(target: str, after: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        StudyConfig(target=target, after=AfterOptions(**after))  # type: ignore[arg-type]
