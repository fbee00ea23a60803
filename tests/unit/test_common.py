"""common: errors that help, files that are whole or absent, progress without a terminal."""

import errno
import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from common.command import run_command
from common.errors import UserError, unknown_name
from common.files import explain_full_disk, new_folder, write_json, write_text
from common.progress import Progress, progress, say


def test_unknown_name_offers_the_nearest_and_lists_all() -> None:
    message = str(unknown_name("student", "tiney", ["tiny", "distil"]))
    assert message == "unknown student 'tiney': did you mean 'tiny'? Known: distil, tiny"


def test_unknown_name_makes_no_far_guess() -> None:
    assert "did you mean" not in str(unknown_name("student", "xyz", ["tiny", "distil"]))


def test_text_is_written_whole_and_leaves_nothing_beside(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "file.txt"
    write_text(target, "first")
    write_text(target, "größer ×")
    assert target.read_text(encoding="utf-8") == "größer ×"
    assert os.listdir(target.parent) == ["file.txt"]


def test_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "file.txt"
    write_text(target, "old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"no space left on the disk while writing .*file\.txt.*free some space"):
        write_text(target, "new")
    assert target.read_text(encoding="utf-8") == "old"
    assert os.listdir(tmp_path) == ["file.txt"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"deep": [1.0, float("-inf")]}])
def test_json_refuses_what_is_no_json(tmp_path: Path, value: object) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "value.json", value)
    assert list(tmp_path.iterdir()) == []


def test_json_keeps_letters_readable(tmp_path: Path) -> None:
    write_json(tmp_path / "value.json", {"label": "好"})
    text = (tmp_path / "value.json").read_text(encoding="utf-8")
    assert "好" in text
    assert json.loads(text) == {"label": "好"}


def test_new_folder_takes_its_name_at_the_end(tmp_path: Path) -> None:
    with new_folder(tmp_path / "model") as folder:
        (folder / "weights").write_text("1", encoding="utf-8")
        assert not (tmp_path / "model").exists()
    assert (tmp_path / "model" / "weights").read_text(encoding="utf-8") == "1"
    assert os.listdir(tmp_path) == ["model"]


def test_weights_in_a_new_folder_may_be_read_by_whom_the_umask_lets(tmp_path: Path) -> None:
    with new_folder(tmp_path / "model") as folder:
        for name in ("model.safetensors", "config.json"):
            (folder / name).write_text("{}")
        (folder / "model.safetensors").chmod(0o600)
    modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "model").iterdir()}
    assert modes["model.safetensors"] == modes["config.json"] != 0o600


def test_new_folder_replaces_the_old_one_entirely(tmp_path: Path) -> None:
    with new_folder(tmp_path / "model") as folder:
        (folder / "only in the old").touch()
    with new_folder(tmp_path / "model") as folder:
        (folder / "new").touch()
    assert os.listdir(tmp_path / "model") == ["new"]
    assert os.listdir(tmp_path) == ["model"]


def test_failure_in_the_block_leaves_the_old_folder(tmp_path: Path) -> None:
    with new_folder(tmp_path / "model") as folder:
        (folder / "weights").write_text("old", encoding="utf-8")
    with pytest.raises(RuntimeError, match="half way"), new_folder(tmp_path / "model") as folder:
        (folder / "weights").write_text("new", encoding="utf-8")
        raise RuntimeError("half way")
    assert (tmp_path / "model" / "weights").read_text(encoding="utf-8") == "old"
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "no space left"),
        (OSError(errno.EROFS, "Read-only file system"), "Choose another place for the output"),
        (OSError(errno.EACCES, "Permission denied"), "Permission denied"),
        (RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"), "no space left"),
    ],
)
def test_disk_errors_are_explained(error: Exception, says: str) -> None:
    with pytest.raises(UserError, match=says) as caught, explain_full_disk(Path("runs/model")):
        raise error
    assert "runs/model" in str(caught.value)


def test_other_errors_pass_unchanged() -> None:
    with pytest.raises(FileNotFoundError), explain_full_disk(Path("runs/model")):
        raise FileNotFoundError(errno.ENOENT, "No such file")


def test_progress_without_a_terminal_is_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("tokenise", total=2000, unit="text", seconds=0.0) as bar:
        bar.advance(1500, note="loss 0.3")
        bar.advance(500)
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0].startswith("tokenise: 1,500/2,000 texts in ")
    assert lines[-1].startswith("tokenise: 2,000/2,000 texts in ")
    assert lines[-1].endswith(", loss 0.3")
    assert "\r" not in captured.out + captured.err


def test_progress_is_silent_between_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress(iter(range(100)), "count", total=100)) == list(range(100))
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_progress_says_nothing_of_success_after_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError), Progress("train", total=10):
        raise RuntimeError
    assert capsys.readouterr().out == ""


def test_say_prints_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say("report: reports/a.html")
    assert capsys.readouterr().out == "report: reports/a.html\n"


@dataclass(frozen=True, kw_only=True)
class Options:
    """One line.

    Another one.
    """

    size: int = 3
    """A number."""


def test_help_shows_the_description_and_the_examples_without_gaps(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_command(lambda options: None, Options, arguments=["--help"], examples="\n  python -m x --size 4\n")
    output = capsys.readouterr().out
    assert "One line.\n\nAnother one.\n\nExamples:\n  python -m x --size 4\n" in output


def test_help_that_nobody_reads_to_its_end_is_quiet() -> None:
    program = (
        "import sys, time; from dataclasses import make_dataclass; from common.command import run_command\n"
        "time.sleep(1)\n"
        "sys.exit(run_command(print, make_dataclass('Options', [('size', int, 3)]), arguments=['--help']))"
    )
    line = shlex.join([sys.executable, "-c", program]) + " | true; echo ${PIPESTATUS[0]}"
    result = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=True)
    assert (result.stdout, result.stderr) == ("0\n", "")


@dataclass(frozen=True)
class _Resumable:
    """Goes on when asked to."""

    resume: bool = False


@pytest.mark.parametrize(("config", "how"), [(Options, "the same command goes"), (_Resumable, "and --resume goes on")])
def test_a_stopped_command_says_how_it_is_gone_on_with(
    config: type, how: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)

    def stopped(_: object) -> None:
        raise KeyboardInterrupt

    assert run_command(stopped, config, arguments=[]) == 130
    assert how in capsys.readouterr().err
