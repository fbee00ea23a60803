"""Several seeds learn from a teacher whose insides are kept on the disk meanwhile."""

from pathlib import Path

import pytest
from e2e.conftest import quick

from common.command import run_command
from distill.config import RunConfig
from distill.run import main
from reports.record import Record


def test_seeds_share_what_the_teacher_looks_like_inside(
    tmp_path: Path, reviews: Path, fine_tuned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--student", "tiny,distil", "--seeds", 2, "--no-twins", "--text", "task", "--budget", "0.1"]
    options = quick(tmp_path, reviews, fine_tuned, *asked)
    losses = []
    for name, gigabytes in (("kept", "1"), ("anew", "0")):
        command = [*options, "--name", name, "--cache-gb", gigabytes]
        assert run_command(main, RunConfig, arguments=command) == 0
        assert ("teacher: insides" in capsys.readouterr().out) == (name == "kept")
        assert not (tmp_path / "runs" / name / "teacher" / "insides").exists()
        record = Record.load(tmp_path / "runs" / name / "record.json")
        curves = record.model("tiny").curves
        losses.append(
            next(curve.values for curve in curves if curve.stage == "intermediate" and curve.name == "hidden")
        )
    assert losses[0] == pytest.approx(losses[1], rel=1e-3), "in fp32, as the training"
