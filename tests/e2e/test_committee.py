"""A student that learns from two teachers, one of them another student."""

import json
from pathlib import Path

import numpy as np
import pytest
from e2e.conftest import quick

from common.command import run_command
from distill.config import RunConfig
from distill.run import main
from reports.record import Record


def test_two_teachers_and_an_assistant(
    tmp_path: Path, reviews: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = quick(tmp_path, reviews, encoder, "--student", "tiny", "--no-twins", "--text", "task")

    def distil(*more: object) -> int:
        return run_command(main, RunConfig, arguments=[str(option) for option in (*options, *more)])

    assert distil("--name", "first") == 0
    assistant = tmp_path / "runs" / "first" / "tiny" / "seed-0" / "model"
    assert distil("--name", "two", "--more-teachers", assistant, "--teacher-weights", "3,1") == 0
    logits = np.load(tmp_path / "runs" / "two" / "teacher" / "labeled" / "logits.npy")
    alone = np.load(tmp_path / "runs" / "first" / "teacher" / "labeled" / "logits.npy")
    assert logits.shape == (*alone.shape[:1], 2, *alone.shape[1:])
    assert np.array_equal(logits[:, 0], alone)
    record = Record.load(tmp_path / "runs" / "two" / "record.json")
    assert any(note.startswith(f"Also a teacher: {assistant}") for note in record.notes)
    # The assistant as the teacher of a smaller one: it came fine-tuned, and is not trained again.
    options[options.index(str(encoder))] = str(assistant)
    assert distil("--name", "chain", "--layers", "1") == 0
    assert (
        json.loads((tmp_path / "runs" / "chain" / "tiny" / "seed-0" / "model" / "config.json").read_text())[
            "num_hidden_layers"
        ]
        == 1
    )
    capsys.readouterr()
    assert distil("--name", "bad", "--more-teachers", encoder) == 2
    assert "has no head for this task" in capsys.readouterr().err
    assert not (tmp_path / "runs" / "bad").exists()
