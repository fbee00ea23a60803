"""Every command in the README is one that exists, with options that it takes."""

import re
import shlex
from pathlib import Path

import pytest
import tyro

from distill.config import RunConfig
from distill.general_config import GeneralConfig
from distill.study_config import StudyConfig
from reports.build import BuildConfig
from teacher.ablation_config import AblateConfig
from teacher.finetune import FinetuneConfig
from teacher.pretrain import PretrainCommand

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = {
    "distill.run": RunConfig,
    "distill.general": GeneralConfig,
    "distill.study": StudyConfig,
    "teacher.finetune": FinetuneConfig,
    "teacher.pretrain": PretrainCommand,
    "teacher.ablate": AblateConfig,
    "reports.build": BuildConfig,
}
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^python -m (\S+) ?(.*)$", README, flags=re.MULTILINE)


def test_the_readme_shows_every_command() -> None:
    assert {module for module, _ in COMMANDS} == set(CONFIGS)
    for target in re.findall(r"^make (\w+) +#", README, flags=re.MULTILINE):
        assert f"\n{target}:" in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize(("module", "options"), COMMANDS)
def test_a_command_of_the_readme_is_understood(module: str, options: str) -> None:
    words = shlex.split(options, comments=True)
    assert isinstance(tyro.cli(CONFIGS[module], args=words, config=(tyro.conf.OmitArgPrefixes,)), CONFIGS[module])
