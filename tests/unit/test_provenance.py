"""Provenance: commands that can be typed again, commits of the right repository, settings that survive JSON."""

import dataclasses
import enum
import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from common.provenance import command_line, git_commit, plain, provenance, versions


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (["/a/distill/run.py"], "python -m distill.run"),
        (["/a b/teacher/finetune.py", "--task", "my data.tsv"], "python -m teacher.finetune --task 'my data.tsv'"),
        (["/usr/bin/other", "x;y"], "/usr/bin/other 'x;y'"),
    ],
)
def test_command_as_typed(argv: list[str], command: str) -> None:
    assert command_line(argv) == command
    assert shlex.split(command)[-len(argv) + 1 :] == argv[1:] or len(argv) == 1


@pytest.mark.parametrize(
    ("storage", "shown"),
    [
        ("postgresql+psycopg://ann:s3cret@host:5432/db", "postgresql+psycopg://ann:***@host:5432/db"),
        ("mysql://ann:s3cret/:x@host/db", "mysql://ann:***@host/db"),
        ("postgresql://host/db?user=ann&password=s3cret", "postgresql://host/db?user=ann&password=***"),
        ("postgresql+psycopg://ann@host/db", "postgresql+psycopg://ann@host/db"),
        ("sqlite:///runs/a@b:c.db", "sqlite:///runs/a@b:c.db"),
    ],
)
def test_no_command_shows_a_password(storage: str, shown: str) -> None:
    for arguments in (["--storage", storage], [f"--storage={storage}"]):
        typed = shlex.split(command_line(["/a/distill/study.py", *arguments]))
        assert typed[3:] == [argument.replace(storage, shown) for argument in arguments]


class _Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass(frozen=True)
class _Options:
    out: Path
    seeds: tuple[int, ...]
    colour: _Colour
    parts: frozenset[str]
    rate: float | None = None


def test_settings_become_plain_json() -> None:
    options = _Options(out=Path("runs/a"), seeds=(1, 2), colour=_Colour.RED, parts=frozenset("ba"))
    expected = {"out": "runs/a", "seeds": [1, 2], "colour": "red", "parts": ["a", "b"], "rate": None}
    assert plain({"options": options}) == {"options": expected}
    assert json.loads(json.dumps(plain(options))) == expected
    assert plain(True) is True


def test_everything_a_record_needs_is_there() -> None:
    made = provenance(
        config={"out": Path("x")}, seeds=[1, 2], threads=3, precision="fp32", wall_seconds=4.5, argv=["distill/run.py"]
    )
    assert made.config == {"out": "x"}
    assert made.seeds == (1, 2)
    assert made.command == "python -m distill.run"
    assert made.created.endswith("+00:00")
    assert made.cores >= 1
    assert made.memory_bytes > 1 << 28
    assert made.cpu
    json.dumps(dataclasses.asdict(made), allow_nan=False)


def test_versions_are_those_installed() -> None:
    found = versions()
    assert found["torch"].startswith("2.")
    assert {"python", "transformers", "scikit-learn"} <= found.keys()


def _git(folder: Path, *arguments: str) -> str:
    identity = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    for role in ("AUTHOR", "COMMITTER"):
        identity |= {f"GIT_{role}_NAME": "A", f"GIT_{role}_EMAIL": "a@example.org"}
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, env=os.environ | identity, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_commit_with_and_without_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert git_commit(tmp_path) is None
    _git(tmp_path, "init", "-q")
    assert git_commit(tmp_path) is None
    (tmp_path / "distill").mkdir()
    (tmp_path / "distill" / "a.py").write_text("1\n", encoding="utf-8")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "-q", "-m", "first")
    commit = _git(tmp_path, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "not there"))
    assert git_commit(tmp_path) == commit
    (tmp_path / "notes.txt").write_text("mine\n", encoding="utf-8")
    assert git_commit(tmp_path) == commit
    (tmp_path / "distill" / "a.py").write_text("2\n", encoding="utf-8")
    assert git_commit(tmp_path) == f"{commit}+changes"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_package_inside_another_checkout_has_no_commit(tmp_path: Path) -> None:
    _git(tmp_path, "init", "-q")
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "a.py").touch()
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "-q", "-m", "first")
    assert git_commit(tmp_path / "site-packages") is None


def test_without_git_there_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_commit(Path(__file__).parents[2]) is None
