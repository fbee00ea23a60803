"""What distillation added: each student against the same student without it, in words that the interval carries."""

from dataclasses import dataclass

from common.words import counted
from reports.cells import students_of, twin_of
from reports.record import Interval, ModelCard, Record, TaskCard
from reports.statistics import seed_difference
from reports.words import metric_style

SMALL = 200
"""With fewer evaluation examples than this a difference that isn't seen may well be there."""


@dataclass(frozen=True, kw_only=True)
class TwinEffect:
    """A student against the same student trained without distillation."""

    student: ModelCard
    twin: ModelCard
    difference: float
    interval: Interval | None
    verdict: str


def twin_effects(record: Record) -> list[TwinEffect]:
    """For each student with a twin the difference that distillation made, with an interval where one can be had."""
    effects = []
    for student in students_of(record):
        twin = twin_of(record, student)
        if twin is None:
            continue
        seeds = [list(card.quality.by_seed.values()) for card in (student, twin)]
        interval = student.quality.against_twin or seed_difference(*seeds)
        difference = interval.difference if interval else student.quality.value - twin.quality.value
        verdict = (
            f"distillation adds nothing here: {alike_words(record.task)} with and without it"
            if alike(student.quality.against_twin)
            else _twin_words(record.task, student.quality.n, difference, interval, alone=min(map(len, seeds)) < 2)
        )
        effects.append(
            TwinEffect(student=student, twin=twin, difference=difference, interval=interval, verdict=verdict)
        )
    return effects


def _twin_words(task: TaskCard, n: int, difference: float, interval: Interval | None, *, alone: bool) -> str:
    """`alone`: one of the two was trained with a single seed, which no interval over examples knows of."""
    style = metric_style(task.metric)
    amount, signed = style.difference(difference), style.signed(difference)
    if interval is None:
        return f"with minus without distillation: {signed} {style.label}; no interval, so nothing is decided"
    level = f"{interval.level * 100:g} % interval {style.interval(interval)}"
    if interval.low <= 0 <= interval.high:
        points = " points" if style.percent else ""
        if n < SMALL:
            seen = f"distillation makes no difference that {counted(n, 'example')} can show"
            return f"{seen}: {signed}{points}, and the {level} includes zero"
        return f"distillation adds nothing here: {signed}{points}, and the {level} includes zero"
    seed = ", with this one seed" if alone else ""
    gains = (difference > 0) == task.higher_is_better
    if task.higher_is_better:
        return f"distillation {'adds' if gains else 'costs'} {amount}{seed} ({level})"
    return f"distillation {'lowers' if gains else 'raises'} the {style.label} by {amount}{seed} ({level})"


def alike(interval: Interval | None) -> bool:
    """Whether no resample told the two models apart: they answer alike, which is more than a difference of zero."""
    return interval is not None and max(abs(interval.low), abs(interval.high), abs(interval.difference)) < 1e-12


def alike_words(task: TaskCard) -> str:
    """With three or more classes two wrong answers may still differ."""
    return "right on the same examples" if len(task.labels) > 2 else "identical answers"
