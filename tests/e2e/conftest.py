"""Commands as a user types them: a small task in a file, a small encoder in a folder, and a shell."""

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import SimpleNamespace

import pytest
from e2e.as_command import as_command, tell_parent
from transformers import BertModel, PreTrainedModel

from common.command import run_command
from distill.recipes import RECIPES
from distill.stages import scaled
from teacher.finetune import FinetuneConfig
from teacher.finetune import main as finetune

POSTGRES = ("initdb", "pg_ctl", "postgres")
UNPRIVILEGED = "nobody"
"""Who runs the server where the tests run as root, as whom it refuses to start."""
ROOT = Path(__file__).resolve().parents[2]
_FORKS = multiprocessing.get_context("forkserver")
# What takes seconds to import, and none of the commands themselves: those are run as if for the first time.
_FORKS.set_forkserver_preload(["distill.comparison", "distill.workers", "distill.study_workers", "students.general"])
GOOD, BAD, FILLER = (
    ["good", "great", "funny"],
    ["bad", "poor", "boring"],
    ["the", "film", "plot", "actor", "music", "is"],
)


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    """A csv of 240 short reviews whose class one word gives away."""
    return write_reviews(tmp_path / "reviews.csv")


def write_reviews(path: Path) -> Path:
    """The same rows every time."""
    generator = random.Random(0)
    lines = ["text,label"]
    for index in range(240):
        label = index % 2
        words = [generator.choice(FILLER) for _ in range(generator.randint(2, 9))]
        words.insert(generator.randrange(len(words)), generator.choice((BAD, GOOD)[label]))
        lines.append(f"{' '.join(words)} {index},{('negative', 'positive')[label]}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def fine_tuned(
    tmp_path_factory: pytest.TempPathFactory, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer
) -> Path:
    """A teacher of the reviews, of 2 layers of 32: a model folder for all tests, to be read and never written to."""
    folder = tmp_path_factory.mktemp("fine_tuned")
    tiny_bert(layers=2, model_class=BertModel).save_pretrained(folder / "encoder")
    tiny_tokenizer.save_pretrained(folder / "encoder")
    places = [
        "--task",
        write_reviews(folder / "reviews.csv"),
        "--model",
        folder / "encoder",
        "--out",
        folder / "teacher",
    ]
    training = ["--precision", "fp32", "--teacher-learning-rate", "2e-3", "--teacher-epochs", "6"]
    assert run_command(finetune, FinetuneConfig, arguments=[str(option) for option in (*places, *training)]) == 0
    return folder / "teacher" / "model"


@pytest.fixture
def encoder(tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer) -> Path:
    """A BERT of 4 layers of 32, random weights, without a head."""
    folder = tmp_path / "encoder"
    tiny_bert(layers=4, model_class=BertModel).save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def postgres() -> Iterator[str]:
    """The URL of an empty database behind a socket in a folder, in a server that ends with the test."""
    pytest.importorskip("psycopg", reason="the driver is not installed: extra postgres")
    missing = [name for name in POSTGRES if shutil.which(name) is None]
    if missing:
        pytest.skip(f"no PostgreSQL server on the path: {', '.join(missing)}")
    # Not under tmp_path: another user has no way through root's folder, and a socket's path has to be short.
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    if os.geteuid() == 0:
        shutil.chown(folder, UNPRIVILEGED)
    try:
        _unprivileged("initdb", "--pgdata", folder / "data", "--username", "tester", "--auth", "trust", "--no-sync")
        settings = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
        control = ("pg_ctl", "--pgdata", folder / "data", "--wait")
        _unprivileged(*control, "--log", folder / "log", "--options", settings, "start")
        try:
            yield f"postgresql+psycopg://tester@/postgres?host={folder}"
        finally:
            _unprivileged(*control, "--mode", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def _unprivileged(*command: object) -> None:
    user = UNPRIVILEGED if os.geteuid() == 0 else None
    # The server that pg_ctl leaves behind would keep a pipe of ours open.
    subprocess.run(list(map(str, command)), user=user, cwd="/", stdout=subprocess.DEVNULL, check=True, timeout=60)


def quick(tmp_path: Path, task: Path, teacher: Path, *more: object) -> list[str]:
    """Options of the main command for a run of seconds: one process, short stages, nothing measured but quality."""
    places = ["--task", task, "--teacher", teacher, "--runs", tmp_path / "runs", "--reports", tmp_path / "reports"]
    training = ["--teacher-learning-rate", "2e-3", "--teacher-epochs", "4", "--precision", "fp32", "--jobs", "1"]
    return [str(option) for option in (*places, *training, "--no-speed", "--budget", "0.05", *more)]


def command(*arguments: object) -> list[str]:
    """`python -m ...` as a list."""
    return [sys.executable, "-m", *map(str, arguments)]


def run(*arguments: object, code: int = 0) -> str:
    """Run a command in the checkout; its standard output, or its standard error where it should fail with `code`."""
    result = subprocess.run(command(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert result.returncode == code, f"exit {result.returncode}\n{result.stdout}\n{result.stderr}"
    if code:
        assert "Traceback" not in result.stderr
        return result.stderr
    return result.stdout


def start(log: Path, *arguments: object) -> BaseProcess:
    """A command that runs beside the test, at once: it is forked from a process that has imported the libraries."""
    log.touch()
    process = _FORKS.Process(target=as_command, args=(list(map(str, arguments)), log))
    process.start()
    return process


@pytest.fixture
def short_recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twentieth of the recipes in this process, for what trains a preset in full."""
    short = {name: partial(scaled, recipe(), 0.05) for name, recipe in RECIPES.items()}
    for name, recipe in short.items():
        monkeypatch.setitem(RECIPES, name, recipe)


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that train side by side are forked as commands are, where another test has fresh ones."""
    here, there = _FORKS.Pipe(duplex=False)
    _FORKS.Process(target=tell_parent, args=(there,)).start()
    # Workers end with their parent, which is the process that they were forked from.
    parent = here.recv()
    monkeypatch.setattr(multiprocessing, "get_context", lambda kind: _FORKS)
    for module in ("distill.workers", "distill.study_workers"):
        monkeypatch.setattr(f"{module}.os", SimpleNamespace(getpid=lambda: parent))


def kill_when(path: Path, pattern: str, *arguments: object) -> None:
    """Start a command, and kill -9 it and all of its processes once `path` has something that matches `pattern`."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        process = start(log, *arguments)
        deadline = time.monotonic() + 200
        while not any(path.glob(pattern)):
            if not process.is_alive() or time.monotonic() > deadline:
                raise AssertionError(f"{pattern} did not come:\n{log.read_text(encoding='utf-8')}")
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
