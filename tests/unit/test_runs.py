"""Run folders: names, resuming, and leaving others' files alone."""

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from common import files
from common.errors import UserError
from common.files import sole_use
from distill.config import DistilOptions, RunConfig
from distill.runs import drop_if_unused, finished, open_run, settings_key


def _config(tmp_path: Path, **changes: object) -> RunConfig:
    return RunConfig(**{"runs": tmp_path} | changes)


def test_a_second_run_gets_a_new_name_and_touches_nothing(tmp_path: Path) -> None:
    first = open_run(_config(tmp_path), "pydocs")
    (first / "mine.txt").write_text("kept")
    second = open_run(_config(tmp_path), "pydocs")
    assert (first.name, second.name) == ("pydocs-tiny", "pydocs-tiny-2")
    assert (first / "mine.txt").read_text() == "kept"


def test_resume_takes_the_newest_unfinished_run_of_the_same_settings(tmp_path: Path) -> None:
    first, second = open_run(_config(tmp_path), "pydocs"), open_run(_config(tmp_path), "pydocs")
    (second / "record.json").write_text("{}")
    assert open_run(_config(tmp_path, resume=True), "pydocs") == first
    more_jobs = _config(tmp_path, resume=True, distilling=DistilOptions(jobs=1))
    assert open_run(more_jobs, "pydocs") == first
    with pytest.raises(UserError, match="no unfinished run of these settings"):
        open_run(_config(tmp_path, resume=True, distilling=DistilOptions(seeds=3)), "pydocs")


def test_resume_by_name_says_what_changed(tmp_path: Path) -> None:
    open_run(_config(tmp_path, name="mine"), "pydocs")
    with pytest.raises(UserError, match="--seeds was 1"):
        open_run(_config(tmp_path, name="mine", resume=True, distilling=DistilOptions(seeds=3)), "pydocs")
    with pytest.raises(UserError, match="--resume goes on"):
        open_run(_config(tmp_path, name="mine"), "pydocs")


def test_data_that_changed_is_not_gone_on_with(tmp_path: Path) -> None:
    before = {"--task": "1", "--unlabeled": "2"}
    for name in (None, "mine"):
        folder = open_run(_config(tmp_path, name=name), "pydocs", before)
        again = _config(tmp_path, name=name, resume=True)
        assert open_run(again, "pydocs", dict(before)) == folder
        with pytest.raises(UserError, match=rf"data of --unlabeled changed after .*{folder.name}"):
            open_run(again, "pydocs", before | {"--unlabeled": "3"})


def test_a_finished_run_is_of_its_settings_and_data(tmp_path: Path) -> None:
    own = _config(tmp_path, name="s-trial-3")
    assert not finished(own, "d")
    folder = open_run(own, "pydocs", {"--task": "d"})
    assert not finished(own, "d")
    (folder / "record.json").write_text("{}")
    assert finished(own, "d")
    with pytest.raises(UserError, match=r"s-trial-3 is a finished run of other settings or data: choose another"):
        finished(own, "another")
    other = _config(tmp_path, name="s-trial-3", distilling=DistilOptions(seeds=3))
    with pytest.raises(UserError, match=r"other settings or data \(--seeds was 1\)"):
        finished(other, "d")


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="is there already"):
        open_run(_config(tmp_path, name="mine"), "pydocs")
    with pytest.raises(UserError, match="plain folder name"):
        open_run(_config(tmp_path, name="../mine"), "pydocs")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_the_key_holds_what_decides_the_results(tmp_path: Path) -> None:
    assert settings_key(_config(tmp_path)) == settings_key(_config(tmp_path / "elsewhere", name="x"))
    assert settings_key(_config(tmp_path)) != settings_key(_config(tmp_path, student="distil"))
    assert settings_key(_config(tmp_path)) != settings_key(_config(tmp_path, distilling=DistilOptions(budget=2.0)))


def test_wrong_options_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'tiny'"):
        _config(tmp_path, student="tinny")
    with pytest.raises(UserError, match="names one twice"):
        _config(tmp_path, student="tiny,tiny")
    with pytest.raises(UserError, match=r"--budget 0.*--seeds 0"):
        DistilOptions(budget=0, seeds=0)


def test_a_damaged_settings_file_is_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = open_run(_config(tmp_path), "pydocs"), open_run(_config(tmp_path), "pydocs")
    (second / "config.json").write_text('{"key": ')
    assert open_run(_config(tmp_path, resume=True), "pydocs") == first
    assert "pydocs-tiny-2/config.json is damaged" in capsys.readouterr().out


def test_a_run_that_never_began_frees_its_name(tmp_path: Path) -> None:
    unused, used = open_run(_config(tmp_path), "pydocs"), open_run(_config(tmp_path), "pydocs")
    (used / "tiny").mkdir()
    drop_if_unused(unused)
    drop_if_unused(used)
    assert not unused.exists()
    assert used.exists()


def test_a_run_is_held_by_one_process(tmp_path: Path) -> None:
    code = "import sys, pathlib, common.files as files\nwith files.sole_use(pathlib.Path(sys.argv[1])): pass"
    with sole_use(tmp_path / "run"):
        held = subprocess.run(
            [sys.executable, "-c", code, tmp_path / "run"], capture_output=True, text=True, check=False
        )
    free = subprocess.run([sys.executable, "-c", code, tmp_path / "run"], capture_output=True, text=True, check=False)
    assert "is in use by another process" in held.stderr
    assert free.returncode == 0


def test_a_folder_that_was_removed_while_it_was_waited_for_is_held_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = contextlib.ExitStack()
    first.enter_context(sole_use(tmp_path / "run"))

    def remove(_: str) -> None:
        shutil.rmtree(tmp_path / "run")
        first.close()

    monkeypatch.setattr(files, "say", remove)
    with sole_use(tmp_path / "run", wait=True), pytest.raises(UserError, match="in use"), sole_use(tmp_path / "run"):
        pass
