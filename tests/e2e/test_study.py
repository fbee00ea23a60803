"""Studies as a user meets them: to a page and a run, killed and gone on with, several workers on one store."""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

import optuna
import psutil
import pytest
from e2e.conftest import kill_when, start

from common.command import run_command
from common.errors import UserError
from common.files import sole_use
from common.study_record import FinalRow, StudyRecord
from distill.study import TARGETS, main
from distill.study_config import StudyConfig
from distill.study_folder import used
from distill.study_storage import SLOT, open_storage, revive, slots, top_up, waiting
from distill.study_trial import Bench
from reports.record import Record


@pytest.fixture
def options(tmp_path: Path, reviews: Path, fine_tuned: Path) -> list[str]:
    places = ["--task", reviews, "--runs", tmp_path / "runs", "--reports", tmp_path / "reports", "--name", "s"]
    settings = ["--teacher", fine_tuned, "--precision", "fp32", "--latency-length", "16"]
    return [str(option) for option in (*places, *settings)]


def _study(*arguments: object) -> int:
    return run_command(main, StudyConfig, arguments=[str(argument) for argument in arguments])


def _record(tmp_path: Path) -> StudyRecord:
    return StudyRecord.load(tmp_path / "runs" / "s" / "study.json")


def test_from_data_to_a_page_a_comparison_and_a_run(
    tmp_path: Path, options: list[str], encoder: Path, short_recipes: None, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [*options, "--teacher", str(encoder), "--teacher-learning-rate", "2e-3", "--teacher-epochs", "4"]
    fixed = ["--fix", "temperature=2,budget=0.5", "--workers", "1"]
    asked = [*options, *fixed, "--range", "hidden=8..20", "--max-size-mb", "0.07"]
    assert _study(*asked, "--trials", "5") == 0
    record = _record(tmp_path)
    assert len(record.trials) == 5
    assert {row.state for row in record.trials} == {"complete", "pruned"}
    for row in record.trials:
        assert row.settings["temperature"] == 2 and row.settings["hidden"] % row.settings["heads"] == 0
        if row.size_mb > 0.07:
            assert row.state == "pruned" and not row.rungs and "before training" in (row.reason or "")
    best = max((row for row in record.trials if row.within), key=lambda row: row.score or 0)
    assert record.chosen is not None
    assert next(row for row in record.trials if row.number == record.chosen).score == best.score
    assert not list((tmp_path / "runs" / "s").glob("trials/*/*/model"))
    page = (tmp_path / "reports" / "s.html").read_text(encoding="utf-8")
    assert f"trial {record.chosen}" in page
    assert "s.html" in (tmp_path / "reports" / "index.html").read_text(encoding="utf-8")

    assert _study(*asked, "--trials", "6", "--apply", "6") == 2
    assert "--apply 6: no such trial; this study has trials 0 to 5" in capsys.readouterr().err
    assert len(_record(tmp_path).trials) == 5, "it is said before a trial is run"

    assert _study(*asked, "--trials", "6", "--confirm", "1", "--seeds", "2", "--apply", "best", "--no-speed") == 0
    longer = _record(tmp_path)
    assert [row.score for row in longer.trials[:5]] == [row.score for row in record.trials]
    assert [row.name for row in longer.finals] == ["preset", f"trial {longer.chosen}"]
    assert longer.finals[1].against_preset is not None and len(longer.finals[1].by_seed) == 2
    applied = Record.load(tmp_path / "runs" / f"s-trial-{longer.chosen}" / "record.json")
    chosen = next(row for row in longer.trials if row.number == longer.chosen)
    assert applied.model("tiny").architecture["hidden"] == chosen.settings["hidden"]

    capsys.readouterr()
    narrow = [*options, *fixed, "--name", "narrow", "--max-size-mb", "0.001", "--trials", "1", "--confirm", "1"]
    assert _study(*narrow) == 0
    assert "note: --confirm: no trial ended within the limits: give more --trials" in capsys.readouterr().out
    assert _study(*narrow, "--apply", "best") == 2
    assert "--apply best: no trial ended within the limits" in capsys.readouterr().err
    assert _study(*options, "--workers", "1", "--fix", "temperature=3", "--trials", "6") == 2
    assert "was begun with other settings" in capsys.readouterr().err
    assert _study(*asked, "--trials", "6", "--storage", f"journal:{tmp_path / 'other.log'}") == 2
    assert f"{tmp_path / 'runs' / 's'} holds trials of another study" in capsys.readouterr().err


def test_a_comparison_that_fails_costs_no_record_and_one_that_is_done_stays_in_it(
    tmp_path: Path, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(bench: Bench, study: optuna.Study) -> tuple[FinalRow, ...]:
        raise UserError("no space left")

    def done(bench: Bench, study: optuna.Study) -> tuple[FinalRow, ...]:
        with pytest.raises(UserError, match="in use by another process"), sole_use(bench.folder / "confirmed"):
            pass
        own = {"name": "preset", "trial": None, "value": 0.9, "spread": None, "by_seed": {"1": 0.9}}
        return (FinalRow(**own, latency_ms=2.0, size_mb=0.1, against_preset=None, folder="preset"),)

    def confirming(confirmed: Callable[[Bench, optuna.Study], tuple[FinalRow, ...]]) -> None:
        monkeypatch.setitem(TARGETS, "student", dataclasses.replace(TARGETS["student"], confirmed=confirmed))

    asked = [*options, "--fix", "budget=0.05", "--rungs", "1", "--workers", "1", "--trials", "1"]
    confirming(fails)
    assert _study(*asked, "--confirm", "1") == 2
    assert [row.state for row in _record(tmp_path).trials] == ["complete"] and not _record(tmp_path).finals
    assert "trial 0" in (tmp_path / "reports" / "s.html").read_text(encoding="utf-8")
    confirming(done)
    assert _study(*asked, "--confirm", "1") == 0
    compared = _record(tmp_path).finals
    assert [row.value for row in compared] == [0.9]
    insides = tmp_path / "runs" / "s" / "teacher" / "insides"
    with used(tmp_path / "runs" / "s", at_last=lambda folder: None):
        assert _study(*asked) == 0
        assert insides.is_dir(), "another command of the study reads them"
    assert _study(*asked) == 0
    assert not insides.exists()
    assert _record(tmp_path).finals == compared
    confirming(fails)
    assert _study(*asked, "--confirm", "1") == 2
    assert _record(tmp_path).finals == compared


def test_killed_whole_and_gone_on_with(tmp_path: Path, options: list[str]) -> None:
    asked = ["distill.study", *options, "--fix", "budget=0.1", "--pruner", "none"]
    kill_when(tmp_path / "runs" / "s" / "trials", "1/rung-0/*/history.jsonl", *asked, "--trials", "3", "--workers", "1")
    study = optuna.load_study(study_name="s", storage=open_storage(None, tmp_path / "runs" / "s"))
    assert [trial.state.name for trial in study.trials].count("RUNNING") == 1
    finished = [trial.values for trial in study.trials if trial.state.name == "COMPLETE"]
    assert _study(*asked[1:], "--trials", "3", "--workers", "1") == 0
    record = _record(tmp_path)
    assert [row.state for row in record.trials] == ["complete"] * 3 and record.retried == 1
    assert [[row.score] for row in record.trials][: len(finished)] == finished
    assert {trial.state.name for trial in study.get_trials()} == {"COMPLETE", "FAIL"}


def test_a_killed_worker_costs_no_trial(tmp_path: Path, options: list[str]) -> None:
    # One long rung, so that a trial whose worker is read from the store is still under way when that is killed.
    asked = ["distill.study", *options, "--trials", "3", "--workers", "2", "--rungs", "1", "--fix", "budget=0.1"]
    journal, log = tmp_path / "trials.log", tmp_path / "log"
    process = start(log, *asked, "--storage", f"journal:{journal}")
    folder, deadline = tmp_path / "runs" / "s" / "trials", time.monotonic() + 120
    while not any(folder.glob("*/rung-0/*/history.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.01)
    study = optuna.load_study(study_name="s", storage=open_storage(f"journal:{journal}", tmp_path))
    owner = next(trial.user_attrs["owner"] for trial in study.trials if trial.state.name == "RUNNING")
    psutil.Process(int(owner.split(":")[1])).kill()
    process.join(200)
    said = log.read_text(encoding="utf-8")
    assert process.exitcode == 0, said
    assert "a worker died" in said
    record = _record(tmp_path)
    assert [row.state for row in record.trials] == ["complete"] * 3 and record.retried == 1


@pytest.mark.parametrize("kind", ["sqlite:///{}/study.db", "journal:{}/trials.log", "postgres"])
def test_two_workers_on_one_store_without_lock_errors(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    place = request.getfixturevalue(kind) if kind == "postgres" else kind.format(tmp_path)
    (tmp_path / "ready").mkdir()
    study = optuna.create_study(study_name="s", storage=open_storage(place, tmp_path))
    assert top_up(study, 50) == 50
    logs = [tmp_path / "one.log", tmp_path / "other.log"]
    workers = [start(log, "e2e.takes_turns", place, tmp_path / "ready") for log in logs]
    for worker in workers:
        worker.join(100)
    said = [log.read_text(encoding="utf-8") for log in logs]
    assert [worker.exitcode for worker in workers] == [0, 0], said
    assert not any("locked" in text for text in said)
    assert [trial.state.name for trial in slots(study)] == ["COMPLETE"] * 50
    assert len({trial.user_attrs["owner"] for trial in slots(study)}) == 2
    assert waiting(study) == 0 and revive(study) == 0 and all(SLOT in trial.user_attrs for trial in slots(study))
