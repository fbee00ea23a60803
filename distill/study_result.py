"""From the trials in the store to the record of a study, and its last lines on the terminal."""

import sys
import time
import warnings
from collections.abc import Sequence

import optuna
import torch
from optuna.trial import FrozenTrial, TrialState

from common.columns import aligned
from common.passwords import without_passwords
from common.provenance import plain, provenance
from common.study_record import FinalRow, StudyRecord, TrialRow
from distill.study_config import SearchOptions
from distill.study_objectives import COSTS, RUNGS, SCORE, best, feasible
from distill.study_runner import REASON, SECONDS, SETTINGS, Trials
from distill.study_storage import slots
from teacher.loop_config import resolve_precision
from teacher.tasks import task_for

_STATES = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
}


def study_record(bench: Trials, study: optuna.Study, finals: Sequence[FinalRow], *, started: float) -> StudyRecord:
    """The record as it is now; `started` is time.monotonic() of the command's first moment."""
    config, options, data = bench.config, bench.config.searching, bench.data
    trials = slots(study)
    chosen = best(trials, options)
    sign = 1 if task_for(data).higher_is_better else -1
    retried = {number for trial in trials for number in trial.system_attrs.get("retry_history", ())}
    front = {trial.number for trial in _front([trial for trial in trials if feasible(trial)])}
    return StudyRecord(
        name=bench.folder.name,
        provenance=provenance(
            config=plain(config) | {"storage": config.storage and without_passwords(config.storage)},
            seeds=[options.seed],
            threads=max(1, torch.get_num_threads() // config.processes),
            precision=resolve_precision(config.precision),
            wall_seconds=time.monotonic() - started,
            argv=sys.argv,
        ),
        target=config.target,
        student=config.searched,
        task=data.name,
        metric=data.metric,
        higher_is_better=sign > 0,
        rows={split: len(rows) for split, rows in data.splits.items()},
        fingerprint=data.fingerprint,
        teacher=bench.origin,
        teacher_score=None if bench.teacher_score is None else sign * bench.teacher_score,
        objectives=options.objectives,
        limits=limits(options),
        latency_length=bench.latency_length,
        shares=bench.shares,
        space={name: part.words for name, part in bench.space.items()},
        trials=tuple(_row(trial, sign, front) for trial in trials),
        retried=len(retried),
        importances=importances(study),
        chosen=chosen[0].number if chosen else None,
        finals=tuple(finals),
    )


def limits(options: SearchOptions) -> dict[str, float]:
    """Those that were given, by their words."""
    given = {
        "latency, ms": options.max_latency_ms,
        "size, MB": options.max_size_mb,
        "share of the teacher": options.min_retained,
    }
    return {name: value for name, value in given.items() if value is not None}


def _row(trial: FrozenTrial, sign: int, front: set[int]) -> TrialRow:
    found = trial.user_attrs
    return TrialRow(
        number=trial.number,
        state=_STATES[trial.state],
        settings=found.get(SETTINGS, {}),
        score=sign * found[SCORE] if trial.state == TrialState.COMPLETE else None,
        rungs=tuple(sign * value for value in found.get(RUNGS, ())),
        latency_ms=found.get("latency_ms"),
        size_mb=found.get("size_mb"),
        seconds=found.get(SECONDS),
        within=feasible(trial),
        on_front=trial.number in front,
        reason=found.get(REASON),
    )


def _front(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """In accuracy, latency and size, whatever was optimised: that is what a reader chooses by."""
    points = {
        trial.number: (-trial.user_attrs[SCORE], *(trial.user_attrs.get(cost, 0.0) for cost in COSTS.values()))
        for trial in trials
    }
    return [trial for trial in trials if not any(_dominates(other, points[trial.number]) for other in points.values())]


def _dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(left <= right for left, right in zip(one, other, strict=True))


def importances(study: optuna.Study) -> dict[str, float]:
    """What decides whether a completed trial is among the best; empty with too few of them."""
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if len(complete) < 4 or len({trial.user_attrs[SCORE] for trial in complete}) < 2:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Whatever a study's direction, the best by a target of one's own are those where it is lowest.
        found = optuna.importance.get_param_importances(study, target=lambda trial: -trial.user_attrs[SCORE])
    return {name: float(value) for name, value in found.items()}


def closing_table(record: StudyRecord) -> str:
    """The best trials, the chosen one first, and the students trained in full."""
    done = [row for row in record.trials if row.score is not None]
    done.sort(key=lambda row: (row.number != record.chosen, not row.within, -_signed(record, row.score)))
    rows = [
        (
            str(row.number) + (" (chosen)" if row.number == record.chosen else ""),
            f"{row.score:.4f}",
            "" if row.latency_ms is None else f"{row.latency_ms:.2f}",
            "" if row.size_mb is None else f"{row.size_mb:.1f}",
            "yes" if row.within else "no",
        )
        for row in done[:8]
    ]
    states = ", ".join(
        f"{count} {state}" for state in _STATES.values() if (count := sum(row.state == state for row in record.trials))
    )
    lines = [aligned([("trial", record.metric, "ms", "MB", "within limits")], rows)] if rows else []
    lines.append(f"trials: {states}" + ("" if record.chosen is not None else "; none is within the limits"))
    if record.finals:
        lines.append(_finals(record))
    return "\n".join(lines)


def _signed(record: StudyRecord, value: float | None) -> float:
    return (value or 0.0) * (1 if record.higher_is_better else -1)


def _finals(record: StudyRecord) -> str:
    headings = ("in full, evaluation split", record.metric, "±", "ms", "MB", "against the preset", "95 % interval")
    rows = [
        (
            row.name,
            f"{row.value:.4f}",
            "" if row.spread is None else f"{row.spread:.4f}",
            f"{row.latency_ms:.2f}",
            f"{row.size_mb:.1f}",
            "" if row.against_preset is None else f"{row.against_preset.difference:+.4f}",
            "" if row.against_preset is None else f"{row.against_preset.low:+.4f} to {row.against_preset.high:+.4f}",
        )
        for row in record.finals
    ]
    return "\n" + aligned([headings], rows)
