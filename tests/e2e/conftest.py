"""Commands as a user types them: a small task in a file, a small encoder in a folder, and a shell."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from e2e.as_command import as_command
from transformers import BertModel, PreTrainedModel

from common.command import run_command
from teacher.finetune import FinetuneConfig
from teacher.finetune import main as finetune

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


def quick(tmp_path: Path, task: Path, teacher: Path, *more: object) -> list[str]:
    """Options of the main command for a run of seconds: one process, nothing measured but quality."""
    places = ["--task", task, "--teacher", teacher, "--runs", tmp_path / "runs", "--reports", tmp_path / "reports"]
    training = ["--teacher-learning-rate", "2e-3", "--teacher-epochs", "4", "--precision", "fp32", "--jobs", "1"]
    return [str(option) for option in (*places, *training, "--no-speed", *more)]


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
