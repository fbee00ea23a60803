"""What a study optimises and keeps to, over students whose scores and costs are formulas instead of trainings."""

import dataclasses
import itertools
import statistics
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
from transformers import BertConfig

from common.errors import UserError
from distill import study_trial
from distill.study_config import SearchOptions, StudyConfig
from distill.study_narrowing import narrowed
from distill.study_objectives import RUNGS, SCORE, beaten, best, directions, feasible, lacking
from distill.study_runner import REASON
from distill.study_space import Value, student_space
from distill.study_storage import open_storage, slots, top_up, waiting
from distill.study_trial import Bench
from distill.study_workers import work

TEACHER = BertConfig(num_hidden_layers=6, hidden_size=384, num_attention_heads=12, intermediate_size=1536)
FREE = ("layers", "hidden", "layer_map")


class Invented(Bench):
    """Students that are the better the wider, the deeper, the longer trained, and best with the map "uniform"."""

    def score(self, settings: Mapping[str, Value], folder: Path, share: float, seed: int) -> float:
        spoiled = 0.0 if settings["layer_map"] == "uniform" else 0.3
        return 1 - 20 / float(settings["hidden"]) - 0.3 / int(settings["layers"]) - 0.1 * (1 - share) - spoiled


def _costs(bench: Bench, settings: Mapping[str, Value]) -> dict[str, float]:
    layers, hidden = int(settings["layers"]), int(settings["hidden"])
    return {"latency_ms": layers * hidden / 100, "size_mb": layers * hidden**2 / 1e5}


@pytest.fixture(autouse=True)
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_trial, "measured", _costs)


def study_of(tmp_path: Path, trials: int, **options: Any) -> tuple[Bench, optuna.Study]:
    """A study with so many trials waiting."""
    whole = student_space("tiny", TEACHER, kind="classification", recipe="fast", start=None)
    fixed = ",".join(f"{name}={part.default}" for name, part in whole.items() if name not in FREE)
    searching = SearchOptions(trials=trials, **options)
    bench = Invented(
        config=StudyConfig(searching=searching, storage=str(tmp_path / "trials.log")),
        folder=tmp_path,
        space=narrowed(whole, fixed, "", None),
        shared=None,  # type: ignore[arg-type]
        teacher_score=0.95,
    )
    study = optuna.create_study(
        study_name="s",
        storage=open_storage(bench.config.storage, tmp_path),
        directions=directions(searching),
        load_if_exists=True,
    )
    top_up(study, trials)
    return bench, study


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
def test_several_objectives_give_trade_offs_within_the_limits(tmp_path: Path, sampler: str) -> None:
    bench, study = study_of(tmp_path, 16, objective="accuracy,latency,size", sampler=sampler, max_latency_ms=10.0)
    work(bench, "s", None)
    found = slots(study)
    assert len(found) == 16 and waiting(study) == 0
    assert [direction.name for direction in study.directions] == ["MAXIMIZE", "MINIMIZE", "MINIMIZE"]
    for trial in found:
        costs = _costs(bench, trial.user_attrs["settings"])
        assert not trial.intermediate_values
        if costs["latency_ms"] > 10:
            assert trial.state.name == "PRUNED" and RUNGS not in trial.user_attrs
        elif trial.state.name == "COMPLETE":
            score = bench.score(trial.user_attrs["settings"], tmp_path, 1.0, 0)
            assert trial.values == [score, costs["latency_ms"], costs["size_mb"]]
        else:
            # It was given up after a third, when two finished or begun ones had shown to be better and no dearer.
            own = trial.user_attrs[RUNGS]
            assert len(own) == 1
            rivals = [
                (other.user_attrs[RUNGS][0], tuple(_costs(bench, other.user_attrs["settings"]).values()))
                for other in found
                if RUNGS in other.user_attrs and other.number < trial.number
            ]
            assert beaten(own[0], tuple(costs.values()), rivals) >= 2
    assert any(trial.state.name == "COMPLETE" for trial in found)
    assert study.best_trials and all(feasible(trial) for trial in study.best_trials)
    front = {tuple(trial.values) for trial in found if feasible(trial)}
    dominated = {
        mine
        for mine, other in itertools.permutations(front, 2)
        if other[0] >= mine[0] and other[1] <= mine[1] and other[2] <= mine[2]
    }
    assert {tuple(trial.values) for trial in study.best_trials} == front - dominated


def test_a_trial_is_refused_for_the_limits_that_it_is_over_and_no_others(tmp_path: Path) -> None:
    bench, study = study_of(tmp_path, 1, max_latency_ms=1.0, max_size_mb=1000.0)
    work(bench, "s", None)
    found = slots(study)[0].user_attrs
    reason = f"over the limit before training: latency_ms {found['latency_ms']:.3g}"
    assert found["latency_ms"] > 1 and found[REASON] == reason, "its size is within the limit"


def test_without_a_pruner_every_trial_within_the_limits_is_finished(tmp_path: Path) -> None:
    bench, study = study_of(tmp_path, 5, objective="accuracy,size", pruner="none")
    work(bench, "s", None)
    assert {trial.state.name for trial in slots(study)} == {"COMPLETE"}
    assert {len(trial.user_attrs[RUNGS]) for trial in slots(study)} == {1}, "and not begun in short before"
    with pytest.raises(UserError, match="--rungs 3 is where trials may stop, and --pruner none stops none"):
        StudyConfig(searching=SearchOptions(pruner="none", rungs=3))
    StudyConfig(searching=SearchOptions(pruner="none", rungs=3), target="teacher")


def test_a_share_of_the_teacher_makes_the_cheapest_that_has_it_the_chosen_one(tmp_path: Path) -> None:
    bench, study = study_of(tmp_path, 10, min_retained=0.8, pruner="none")
    work(bench, "s", None)
    trials = slots(study)
    chosen = best(trials, bench.config.searching)
    kept = [trial for trial in trials if trial.user_attrs[SCORE] >= 0.8 * 0.95]
    assert 0 < len(kept) < len(trials)
    assert {trial.number for trial in chosen} == {trial.number for trial in kept}
    assert chosen[0].user_attrs["latency_ms"] == min(trial.user_attrs["latency_ms"] for trial in kept)
    without = best(trials, dataclasses.replace(bench.config.searching, min_retained=None))
    assert without[0].user_attrs[SCORE] == max(trial.user_attrs[SCORE] for trial in kept)


def test_with_a_share_to_keep_the_fastest_is_what_is_looked_for(tmp_path: Path) -> None:
    def latencies(**options: Any) -> list[float]:
        folder = tmp_path / str(len(options))
        folder.mkdir()
        bench, study = study_of(folder, 30, min_retained=0.8, **options)
        work(bench, "s", None)
        return [trial.user_attrs["latency_ms"] for trial in best(slots(study), bench.config.searching)]

    fast, accurate = latencies(), latencies(objective="accuracy")
    assert fast[0] < accurate[0] and statistics.median(fast) < statistics.median(accurate)


def test_what_is_given_up_is_no_better_to_the_sampler_than_what_it_lacked(tmp_path: Path) -> None:
    bench, study = study_of(tmp_path, 16, min_retained=0.8)
    work(bench, "s", None)
    given_up = [trial for trial in slots(study) if trial.state.name == "PRUNED"]
    assert given_up
    for trial in given_up:
        assert trial.constraints == {"retained": pytest.approx(0.8 * 0.95 - trial.user_attrs[RUNGS][-1])}


@pytest.mark.parametrize(
    ("teacher", "score", "within"), [(0.9, 0.873, True), (0.9, 0.872, False), (-0.5, -0.51, True), (-0.5, -0.52, False)]
)
def test_a_share_of_an_error_is_a_larger_error(teacher: float, score: float, within: bool) -> None:
    options = SearchOptions(min_retained=0.97)
    assert (lacking(options, score, teacher)["retained"] <= 1e-12) is within
    assert lacking(SearchOptions(), score, teacher) == {}


def test_after_the_time_no_trial_begins_and_none_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench, study = study_of(tmp_path, 5, pruner="none")
    clock = itertools.count()
    monkeypatch.setattr("distill.study_workers.time", SimpleNamespace(time=lambda: next(clock)))
    work(bench, "s", 2)
    assert [trial.state.name for trial in slots(study)] == ["COMPLETE"] * 2 + ["WAITING"] * 3
    work(bench, "s", None)
    assert [trial.state.name for trial in slots(study)] == ["COMPLETE"] * 5


@pytest.mark.parametrize("sampler", ["tpe", "random", "nsga2"])
def test_sittings_draw_as_one_would_have_and_never_the_same_again(tmp_path: Path, sampler: str) -> None:
    def settings(folder: Path, sittings: list[int], seed: int) -> list[dict[str, Value]]:
        folder.mkdir()
        for trials in sittings:
            bench, study = study_of(folder, trials, sampler=sampler, pruner="none", seed=seed)
            work(bench, "s", None)
        return [trial.user_attrs["settings"] for trial in slots(study)]

    whole = settings(tmp_path / "whole", [8], 0)
    # Until the fifth all are drawn at random; what tpe and nsga2 make of those depends on how many are to come.
    assert settings(tmp_path / "parts", [2, 4, 8], 0)[:4] == whole[:4]
    assert len({entry["hidden"] for entry in whole[:4]}) == 4
    other = settings(tmp_path / "other", [8], 1)
    assert not any(entry in whole for entry in other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "accuracy,speed"}, "--objective: .*'speed'"),
        ({"objective": "size,size"}, "--objective size,size: expected one or more of"),
        ({"objective": ","}, "expected one or more of accuracy, latency, size"),
        ({"timeout": 0.0}, r"--timeout 0\.0: expected a number above 0"),
        ({"min_retained": -1.0}, r"--min-retained -1\.0: expected a number above 0"),
        ({"min_retained": 97.0}, r"--min-retained 97\.0: expected a share of 1 at most, as in 0\.97"),
        ({"trials": 0, "rungs": 0}, "--trials 0: expected at least 1; --rungs 0: expected at least 1"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        SearchOptions(**options)
