"""Two processes under torchrun against one process: the same weights, history and folders, also after a resume."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from e2e.conftest import start
from e2e.two_processes import run_all
from safetensors.torch import load_file

from teacher.history import read_rows
from teacher.masked_language import MlmNsp


@pytest.fixture
def two_threads() -> Iterator[None]:
    """In which one process cuts a batch in two, as two processes do."""
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """40 made-up documents of unlike length, separated by empty lines."""
    rng = np.random.default_rng(0)
    words = ["red", "green", "blue", "house", "tree", "runs", "sees", "takes", "quickly", "slowly", "the", "a"]
    documents = [
        " ".join(" ".join(rng.choice(words, size=7)) + "." for _ in range(int(rng.integers(1, 12)))) for _ in range(40)
    ]
    path = tmp_path / "words.txt"
    path.write_text("\n\n".join(documents), encoding="utf-8")
    return path


def _commands(text: Path, reviews: Path, folder: Path) -> list[list[str]]:
    small = "--size tiny --vocabulary 100 --length 24 --batch-size 16 --steps 12 --precision fp32 --dropout 0.1"
    schedule = "--long-length 48 --long-share 0.4 --evaluate-every 5 --checkpoint-every 3 --resume"
    shared = ["--model", str(folder / "model"), "--task", str(reviews), "--precision", "fp32", "--teacher-epochs", "1"]
    return [
        ["pretrain", "--corpus", str(text), *small.split(), *schedule.split(), "--out", str(folder / "model")],
        ["finetune", *shared, "--out", str(folder / "teacher")],
    ]


def _torchrun(commands: list[list[str]], where: Path) -> str:
    """What they say, in two fresh processes; torchrun itself is forked."""
    (where / "commands.json").write_text(json.dumps(commands), encoding="utf-8")
    place = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1"]
    script = ["-m", "tests.e2e.two_processes", where / "commands.json"]
    process = start(where / "log", "torch.distributed.run", "--nproc-per-node", 2, *place, *script)
    process.join(280)
    said = (where / "log").read_text(encoding="utf-8")
    assert process.exitcode == 0, said
    return said


def test_two_processes_go_on_with_a_run_of_one_and_end_with_its_weights(
    tmp_path: Path, text: Path, reviews: Path, two_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with monkeypatch.context() as patch:
        patch.setattr(MlmNsp, "at", _stop_at(7))
        assert run_all(_commands(text, reviews, two)[:1]) == 130
    assert [path.name for path in (two / "model-unfinished" / "training").glob("step-*")] == ["step-6"]
    assert run_all(_commands(text, reviews, one)) == 0
    said = _torchrun(_commands(text, reviews, two), tmp_path)
    assert "going on from" in said
    assert said.count("pretrain tiny: 12/12 steps") == 1
    assert read_rows(two / "model" / "history.jsonl") == read_rows(one / "model" / "history.jsonl")
    assert read_rows(two / "teacher/training/history.jsonl") == read_rows(one / "teacher/training/history.jsonl")
    for folder in ("model", "teacher/model"):
        first, second = load_file(one / folder / "model.safetensors"), load_file(two / folder / "model.safetensors")
        assert first.keys() == second.keys()
        for name in first:
            torch.testing.assert_close(first[name], second[name], atol=1e-6, rtol=1e-5, msg=name)


def _stop_at(step: int):
    def at(_: MlmNsp, now: int, total: int) -> None:
        if now == step:
            raise KeyboardInterrupt

    return at
