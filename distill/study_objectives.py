"""What a study optimises, what it must not exceed, and when a trial is given up."""

import copy
from collections.abc import Mapping, Sequence
from typing import Literal

import optuna
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner, SuccessiveHalvingPruner
from optuna.trial import FrozenTrial, TrialState

from distill.study_config import SearchOptions
from distill.study_storage import slots

Direction = Literal["minimize", "maximize"]

COSTS = {"latency": "latency_ms", "size": "size_mb"}
"""Objective to the user attribute that holds it."""
SCORE, RUNGS, CONSTRAINTS = "score", "rungs", "constraints"
"""User attributes: the selection metric, higher better; the metric at each rung; how far each limit is exceeded."""
FACTOR = 3
"""Of successive halving: one in so many goes on."""


def directions(options: SearchOptions) -> list[Direction]:
    """Of the objectives, in their order."""
    return ["maximize" if name == "accuracy" else "minimize" for name in options.objectives]


def values(options: SearchOptions, score: float, costs: Mapping[str, float]) -> list[float]:
    """In the order of the objectives."""
    return [score if name == "accuracy" else costs[COSTS[name]] for name in options.objectives]


def beyond(options: SearchOptions, costs: Mapping[str, float]) -> dict[str, float]:
    """Limit to how far a cost is over it, negative where it is under; only of the limits that were given."""
    limits = {"latency_ms": options.max_latency_ms, "size_mb": options.max_size_mb}
    return {name: costs[name] - limit for name, limit in limits.items() if limit is not None}


def lacking(options: SearchOptions, score: float, teacher: float) -> dict[str, float]:
    """The same for the share of the teacher's score that has to be kept."""
    if options.min_retained is None:
        return {}
    kept = options.min_retained if teacher > 0 else 1 / options.min_retained
    return {"retained": kept * teacher - score}


def constrain(trial: optuna.Trial, found: Mapping[str, float]) -> None:
    """Write down how far the trial is beyond each limit; samplers keep away from what is above 0."""
    known = trial.user_attrs.get(CONSTRAINTS, {})
    for name, value in found.items():
        if name not in known:
            trial.set_constraint(name, value)
    trial.set_user_attr(CONSTRAINTS, known | dict(found))


def feasible(trial: FrozenTrial) -> bool:
    """Whether a finished trial keeps all limits."""
    return trial.state == TrialState.COMPLETE and all(value <= 0 for value in _constraints(trial))


def _constraints(trial: FrozenTrial) -> Sequence[float]:
    return tuple(trial.user_attrs.get(CONSTRAINTS, {}).values())


class _Halving(SuccessiveHalvingPruner):
    """Compares a trial with slots: one that was cut off and queued again keeps its scores in both attempts."""

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        once = copy.copy(study)
        once.get_trials = lambda *_, **__: slots(study)  # type: ignore[method-assign]
        return super().prune(once, trial)


def pruner(options: SearchOptions) -> BasePruner:
    """For accuracy alone; a rung's resource is 1, 3, 9, ..."""
    if options.pruner == "halving":
        return _Halving(min_resource=1, reduction_factor=FACTOR)
    if options.pruner == "hyperband":
        return HyperbandPruner(min_resource=1, max_resource=FACTOR ** (options.rungs - 1), reduction_factor=FACTOR)
    return MedianPruner(n_startup_trials=4) if options.pruner == "median" else NopPruner()


def given_up(options: SearchOptions, study: optuna.Study, trial: optuna.Trial, rung: int, score: float) -> bool:
    """Whether the trial stops at this rung; the score there is written down first."""
    reached = [*trial.user_attrs.get(RUNGS, [])[:rung], score]
    trial.set_user_attr(RUNGS, reached)
    last = rung == len(options.shares) - 1
    if options.objectives == ("accuracy",):
        trial.report(score, FACTOR**rung)
        return not last and trial.should_prune()
    if last or options.pruner == "none":
        return False
    # One that was cut off and queued again is one trial, not two that are better.
    others = [other for other in slots(study) if other.number != trial.number]
    return beaten(score, _costs(options, trial.user_attrs), [_at(options, other, rung) for other in others]) >= 2


def _costs(options: SearchOptions, attributes: Mapping[str, float]) -> tuple[float, ...]:
    return tuple(attributes[COSTS[name]] for name in options.objectives if name in COSTS)


def _at(options: SearchOptions, trial: FrozenTrial, rung: int) -> tuple[float, tuple[float, ...]] | None:
    reached = trial.user_attrs.get(RUNGS, [])
    return (reached[rung], _costs(options, trial.user_attrs)) if len(reached) > rung else None


def beaten(score: float, costs: tuple[float, ...], others: Sequence[tuple[float, tuple[float, ...]] | None]) -> int:
    """How many others are better at the same rung, and no more expensive in anything.

    >>> beaten(0.8, (3.0,), [(0.9, (2.0,)), (0.9, (4.0,)), (0.7, (1.0,)), None])
    1
    """
    return sum(
        other[0] > score and all(theirs <= own for theirs, own in zip(other[1], costs, strict=True))
        for other in others
        if other is not None
    )


def best(trials: Sequence[FrozenTrial], options: SearchOptions) -> list[FrozenTrial]:
    """Those that keep all limits, the chosen one first.

    The most accurate, the faster of equal ones; with a share of the teacher to keep, or latency or size as the only
    objective, the cheapest.
    """
    cost = next((COSTS[name] for name in options.objectives if name in COSTS), "latency_ms")
    cheapest = options.min_retained is not None or "accuracy" not in options.objectives

    def order(trial: FrozenTrial) -> tuple[float, float]:
        score, price = -trial.user_attrs[SCORE], trial.user_attrs.get(cost, 0.0)
        return (price, score) if cheapest else (score, price)

    return sorted((trial for trial in trials if feasible(trial)), key=order)
