"""What the page of a study says of the students that were trained in full."""

import json
from dataclasses import replace
from pathlib import Path

from unit import record_factory

from common.bootstrap import Interval
from common.study_record import FinalRow, StudyRecord, TrialRow
from reports.study_page import finals, scatters, verdict


def trial(number: int, **changes: object) -> TrialRow:
    values: dict = {
        "number": number,
        "state": "complete",
        "settings": {"layers": 4},
        "score": 0.85,
        "rungs": (),
        "latency_ms": 2.0,
        "size_mb": 50.0,
        "seconds": 60.0,
        "within": True,
        "on_front": True,
        "reason": None,
    }
    return TrialRow(**(values | changes))


def final(name: str, latency: float, *, p95: float | None = None, repeats: int | None = None) -> FinalRow:
    preset = name == "preset"
    return FinalRow(
        name=name,
        trial=None if preset else 1,
        value=0.85,
        spread=None,
        by_seed={"1": 0.85, "2": 0.85},
        latency_ms=latency,
        size_mb=50.0,
        against_preset=None if preset else Interval(difference=0.02, low=0.01, high=0.03),
        folder="model",
        p95_ms=p95,
        repeats=repeats,
    )


def study(*finals: FinalRow, trials: tuple[TrialRow, ...] = (trial(1),)) -> StudyRecord:
    return StudyRecord(
        name="study",
        provenance=record_factory.provenance(),
        student="tiny",
        task="pydocs",
        metric="accuracy",
        higher_is_better=True,
        rows={"train": 100, "select": 50, "evaluate": 400},
        fingerprint="0",
        teacher="packaged",
        teacher_score=0.9,
        objectives=("accuracy",),
        limits={},
        latency_length=16,
        shares=(1.0,),
        space={"layers": "2..4"},
        trials=trials,
        retried=0,
        importances={},
        chosen=1,
        finals=finals,
    )


def test_a_trial_that_was_not_trained_in_full_is_said_to_be_untested() -> None:
    untested = "so its score is too high; --confirm tests it."
    rows = (final("preset", 3.0), final("trial 1", 2.0))
    assert untested in verdict(study())
    assert untested not in verdict(study(*rows))
    later = verdict(replace(study(*rows, trials=(trial(1), trial(7, score=0.9))), chosen=7))
    assert untested in later and "In full, trial 1 is" in later, "trials were added after the comparison"


def test_no_speed_is_claimed_from_times_that_are_not_reliable() -> None:
    sound = study(final("preset", 3.0, p95=3.3, repeats=40), final("trial 1", 2.0, p95=2.2, repeats=40))
    assert verdict(sound).endswith(
        "trial 1 is 2.0 points better than the preset (95 % interval +1.0 to +3.0), at 1.50 times the preset's speed."
    )
    for spoiled, reason in (
        (final("trial 1", 2.0, p95=50.0, repeats=40), "p95 is 25× p50"),
        (final("trial 1", 2.0, p95=2.2, repeats=3), "3 repeats"),
    ):
        record = replace(sound, finals=(sound.finals[0], spoiled))
        assert f"; the times of it or of the preset are not reliable ({reason})." in verdict(record)
        assert "speed" not in verdict(record)
        assert [row[3].under for row in finals(record).rows] == ["", "not reliable"]
    busy = replace(sound, finals=(final("preset", 3.0, p95=30.0, repeats=40), sound.finals[1]))
    assert "not reliable (p95 is 10× p50)" in verdict(busy)


def test_a_record_of_before_says_nothing_of_scatter_and_is_read(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    study(final("preset", 3.0), final("trial 1", 2.0)).save(path)
    values = json.loads(path.read_text(encoding="utf-8"))
    for row in values["finals"]:
        del row["p95_ms"], row["repeats"]
    path.write_text(json.dumps(values), encoding="utf-8")
    assert "at 1.50 times the preset's speed" in verdict(StudyRecord.load(path))


def test_one_seed_in_full_is_said_to_be_one() -> None:
    record = study(final("preset", 3.0), final("trial 1", 2.0))
    alone = tuple(replace(row, by_seed={"1": 0.85}) for row in record.finals)
    assert "better than the preset, with this one seed (95 %" in verdict(replace(record, finals=alone))
    assert "seed" not in verdict(record)


def test_a_trial_beyond_a_limit_is_told_by_its_shape_too() -> None:
    beyond = (trial(1), trial(2), trial(3, within=False))
    chart = next(chart for chart in scatters(study(trials=beyond)) if chart)
    assert [point.marker for point in chart.points] == ["square", "circle", "triangle"]
