"""A study whose trials lie in PostgreSQL: a server of the test's own, two workers on it, and going on with it."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest

from common.command import run_command
from common.study_record import StudyRecord
from distill.study import main
from distill.study_config import StudyConfig
from distill.study_storage import open_storage, slots, waiting

BINARIES = ("initdb", "pg_ctl", "postgres")
ORDINARY = "nobody"
"""Who runs the server where the tests run as root, as whom it refuses to start."""


@pytest.fixture
def server() -> Iterator[str]:
    """The URL of an empty database behind a socket in a folder, in a server that ends with the test."""
    pytest.importorskip("psycopg", reason="the driver is not installed: extra postgres")
    missing = [name for name in BINARIES if shutil.which(name) is None]
    if missing:
        pytest.skip(f"no PostgreSQL server on the path: {', '.join(missing)}")
    # Not under tmp_path: another user has no way through root's folder, and a socket's path has to be short.
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    if os.geteuid() == 0:
        shutil.chown(folder, ORDINARY)
    try:
        _as_ordinary("initdb", "--pgdata", folder / "data", "--username", "tester", "--auth", "trust", "--no-sync")
        settings = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
        control = ("pg_ctl", "--pgdata", folder / "data", "--wait")
        _as_ordinary(*control, "--log", folder / "log", "--options", settings, "start")
        try:
            yield f"postgresql+psycopg://tester@/postgres?host={folder}"
        finally:
            _as_ordinary(*control, "--mode", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def _as_ordinary(*command: object) -> None:
    user = ORDINARY if os.geteuid() == 0 else None
    # The server that pg_ctl leaves behind would keep a pipe of ours open.
    subprocess.run(list(map(str, command)), user=user, cwd="/", stdout=subprocess.DEVNULL, check=True, timeout=60)


def test_two_workers_share_the_trials_of_a_study_that_is_then_made_longer(
    server: str, tmp_path: Path, reviews: Path, encoder: Path
) -> None:
    places = ["--task", reviews, "--teacher", encoder, "--runs", tmp_path / "runs", "--reports", tmp_path / "reports"]
    training = ["--teacher-learning-rate", "2e-3", "--precision", "fp32", "--fix", "layers=1,budget=0.5"]
    asked = [*places, *training, "--name", "s", "--storage", server, "--pruner", "none", "--rungs", "1"]

    def record(*options: object) -> StudyRecord:
        assert run_command(main, StudyConfig, arguments=[str(option) for option in (*asked, *options)]) == 0
        return StudyRecord.load(tmp_path / "runs" / "s" / "study.json")

    first = record("--trials", "6", "--workers", "2")
    assert [row.state for row in first.trials] == ["complete"] * 6
    study = optuna.load_study(study_name="s", storage=open_storage(server, tmp_path))
    assert len({trial.user_attrs["owner"] for trial in slots(study)}) == 2 and waiting(study) == 0
    longer = record("--trials", "7", "--workers", "1")
    assert [(row.score, row.seconds) for row in longer.trials[:6]] == [(row.score, row.seconds) for row in first.trials]
    assert [row.state for row in longer.trials[6:]] == ["complete"] and longer.retried == 0
    assert not list((tmp_path / "runs").rglob("*.db"))
