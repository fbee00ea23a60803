"""What every process of several does; the processes themselves are in tests/e2e/test_scale_out.py."""

from pathlib import Path

import numpy as np
import pytest

from common import progress
from common.command import run_command
from common.errors import UserError
from distill.config import RunConfig
from distill.run import main
from teacher.history import History
from teacher.parts import cut, own_parts
from teacher.ranks import from_main, main_first, ranks, refuse_several


def test_alone_a_process_does_everything_itself() -> None:
    assert from_main(lambda: 5) == main_first(lambda: 5) == 5
    assert ranks().is_main_process and ranks().num_processes == 1
    with pytest.raises(UserError, match="mine"):
        from_main(lambda: (_ for _ in ()).throw(UserError("mine")))


def test_processes_that_cannot_work_together_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="WORLD_SIZE is 2, but 1 process works"):
        ranks()


def test_a_command_for_one_process_refuses_several(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refuse_several("distill.run")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert run_command(main, RunConfig, arguments=["--runs", str(tmp_path / "runs")]) == 2
    assert "distill.run was started in 2 processes" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("examples", "processes"), [(10, 2), (11, 3), (2, 3), (1, 4)])
def test_every_example_is_in_one_process_and_the_shares_add_up(examples: int, processes: int) -> None:
    parts = cut(np.arange(examples), 5, processes)
    owned = [own_parts(parts, processes, rank) for rank in range(processes)]
    assert all(len(own) == 1 and len(own[0].indices) for own in owned)
    assert sum(own[0].share for own in owned) == pytest.approx(1.0)
    busy = [index for own in owned for index in own[0].indices.tolist() if own[0].share]
    assert sorted(busy) == list(range(examples))
    assert own_parts(parts, 1, 0) == parts


def test_a_silent_process_says_draws_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_silent", True)
    with progress.Progress("x", total=1) as bar:
        bar.advance()
    progress.say("x")
    assert run_command(_fail, RunConfig, arguments=[]) == 2
    assert capsys.readouterr() == ("", "")
    heard: list[int] = []
    history = History(
        tmp_path / "history.jsonl", upto=0, every=1, writes=False, listen=lambda step, _: heard.append(step)
    )
    history.add(1, {"loss": 1.0})
    assert not list(tmp_path.iterdir()) and not heard and history.count == 0


def _fail(_: RunConfig) -> None:
    raise UserError("said by another process")
