"""An encoder from nothing: its size and length from options, a folder for each, and refused where nothing is made."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from toy import toy_task

from common.errors import UserError
from distill.config import RunConfig
from distill.general_config import GeneralConfig
from distill.runs import settings_key
from distill.study_config import StudyConfig
from distill.study_trial import run_config
from teacher import scratch as made_here
from teacher.finetune import FinetuneConfig, main
from teacher.options import TaskOptions
from teacher.pretrain_config import PretrainConfig
from teacher.scratch import encoder_for, expected_config
from teacher.scratch_options import ScratchOptions

Made = list[tuple[PretrainConfig, Path]]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """What would have been pretrained, and where."""
    found: Made = []

    def pretrain(config: PretrainConfig, folder: Path, *, beside: bool) -> Path:
        assert beside
        found.append((config, folder))
        return folder

    monkeypatch.setattr(made_here, "pretrain", pretrain)
    return found


def _encoder(source: str, folder: Path, **options: Any) -> str:
    scratch = ScratchOptions(**options)
    return encoder_for(source, folder, corpus="pydocs", precision="fp32", checkpoint_every=7, scratch=scratch)


@pytest.mark.parametrize(
    ("options", "name", "wanted"),
    [
        ({}, "mini-pydocs-2000", {"size": "mini", "budget": 2000, "minutes": None}),
        ({"scratch_size": "small"}, "small-pydocs-2000", {"size": "small", "budget": 2000}),
        ({"scratch_steps": 50}, "mini-pydocs-50", {"size": "mini", "budget": 50, "steps": 50}),
        ({"scratch_size": "tiny", "scratch_minutes": 2.5}, "tiny-pydocs-2.5min", {"minutes": 2.5, "budget": None}),
    ],
)
def test_size_and_length_are_those_of_the_options(
    tmp_path: Path, made: Made, options: dict[str, Any], name: str, wanted: dict[str, Any]
) -> None:
    assert _encoder("scratch", tmp_path, **options) == str(tmp_path / name)
    ((config, folder),) = made
    assert folder == tmp_path / name
    assert {entry: getattr(config, entry) for entry in wanted} == wanted
    assert (config.checkpoint_every, config.precision, config.resume) == (7, "fp32", True)


def test_a_shape_is_known_before_anything_is_made() -> None:
    plain, small = (expected_config("scratch", scratch=ScratchOptions(scratch_size=size)) for size in (None, "small"))
    assert (plain.num_hidden_layers, plain.hidden_size) == (4, 256)
    assert (small.num_hidden_layers, small.hidden_size) == (4, 512)


def test_auto_becomes_one_where_minilm_is_not_there(
    tmp_path: Path, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(made_here, "minilm_folder", lambda: None)
    assert _encoder("auto", tmp_path, scratch_steps=3).endswith("mini-pydocs-3")
    monkeypatch.setattr(made_here, "minilm_folder", lambda: tmp_path)
    for refused in (_encoder, lambda source, _, **options: expected_config(source, None, ScratchOptions(**options))):
        with pytest.raises(UserError, match=r"--scratch-steps: for an encoder .* the teacher is minilm"):
            refused("auto", tmp_path, scratch_steps=3)
    assert _encoder("auto", tmp_path) == "minilm"
    assert len(made) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scratch_size": "smal"}, "--scratch-size 'smal'.*small"),
        ({"scratch_steps": 0}, "--scratch-steps 0: expected at least 1"),
        ({"scratch_minutes": float("nan")}, "--scratch-minutes nan: expected a number above 0"),
        ({"scratch_steps": 5, "scratch_minutes": 1.0}, "contradict each other"),
    ],
)
def test_wrong_values_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        ScratchOptions(**options)


SMALL = ScratchOptions(scratch_size="small")


@pytest.mark.parametrize(
    "command",
    [
        RunConfig,
        StudyConfig,
        lambda **options: GeneralConfig(out=Path("o"), **options),
    ],
)
def test_commands_refuse_them_with_another_teacher(command: Callable[..., Any]) -> None:
    command(teacher="scratch", scratch=SMALL)
    command(teacher="auto", scratch=SMALL)
    command(teacher="minilm")
    with pytest.raises(UserError, match=r"--scratch-size: for an encoder .* --teacher is minilm: leave"):
        command(teacher="minilm", scratch=SMALL)


def test_finetuning_refuses_them_with_another_model(tmp_path: Path) -> None:
    config = FinetuneConfig(model="minilm", out=tmp_path, scratch=SMALL, data=TaskOptions(task="nothing"))
    with pytest.raises(UserError, match=r"--scratch-size: for an encoder .* --model is minilm"):
        main(config)


def test_keys_hold_them_where_they_are_given() -> None:
    plain = RunConfig(teacher="scratch")
    keys = {settings_key(dataclasses.replace(plain, scratch=scratch)) for scratch in (ScratchOptions(), SMALL)}
    assert len(keys) == 2
    general = GeneralConfig(out=Path("o"), teacher="scratch")
    assert not [name for name in general.settings() if "scratch" in name]
    assert dataclasses.replace(general, scratch=SMALL).settings()["--scratch-size"] == "small"
    assert run_config(StudyConfig(teacher="scratch", scratch=SMALL), {}).scratch == SMALL


def test_the_task_s_own_text_makes_another_folder(tmp_path: Path, made: Made) -> None:
    data = toy_task().data
    for steps in (10, 20):
        scratch = ScratchOptions(scratch_steps=steps)
        encoder_for(
            "scratch", tmp_path, corpus="task", precision="fp32", checkpoint_every=7, data=data, scratch=scratch
        )
    assert [folder.name for _, folder in made] == ["mini-toy-text-0-10", "mini-toy-text-0-20"]
