"""What distillation added: each student against the same student without it, in words that the interval carries."""

from dataclasses import dataclass

from common.words import counted
from reports.cells import students_of, twin_of
from reports.record import Interval, ModelCard, Record, TaskCard
from reports.statistics import seed_difference
from reports.words import metric_style

SMALL = 200
"""With fewer evaluation examples than this a difference that isn't seen may well be there."""
NEGLIGIBLE = 0.005
"""That distillation adds nothing is said where no end of the interval is further from zero: half a point."""


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
        words = _Words(task=record.task, n=student.quality.n, alone=min(map(len, seeds)) < 2)
        verdict = words.equal() if alike(student.quality.against_twin) else words.verdict(difference, interval)
        effects.append(
            TwinEffect(student=student, twin=twin, difference=difference, interval=interval, verdict=verdict)
        )
    return effects


@dataclass(frozen=True, kw_only=True)
class _Words:
    """What is said of a student and its twin."""

    task: TaskCard
    n: int
    """Evaluation examples."""
    alone: bool
    """One of the two was trained with a single seed, which no interval over examples knows of."""

    def equal(self) -> str:
        """Of two that no resample told apart."""
        return f"{self._nothing}: {alike_words(self.task)} with and without it"

    def verdict(self, difference: float, interval: Interval | None) -> str:
        style = metric_style(self.task.metric)
        signed = style.signed(difference)
        if interval is None:
            return f"with minus without distillation: {signed} {style.label}; no interval, so nothing is decided"
        level = f"{interval.level * 100:g} % interval {style.interval(interval)}"
        if interval.low <= 0 <= interval.high:
            points = " points" if style.percent else ""
            return f"{self._unseen(interval)}: {signed}{points}, and the {level} {self._around_zero(interval)}"
        gains, amount = (difference > 0) == self.task.higher_is_better, style.difference(difference)
        if self.task.higher_is_better:
            return f"distillation {'adds' if gains else 'costs'} {amount}{self._seed} ({level})"
        return f"distillation {'lowers' if gains else 'raises'} the {style.label} by {amount}{self._seed} ({level})"

    def _unseen(self, interval: Interval) -> str:
        if self.n >= SMALL and not self._negligible(interval):
            return "no effect of distillation is seen"
        return self._nothing

    @property
    def _nothing(self) -> str:
        if self.n < SMALL:
            return f"distillation makes no difference that {counted(self.n, 'example')} can show"
        return f"distillation adds nothing here{self._seed}"

    def _around_zero(self, interval: Interval) -> str:
        if self.n < SMALL or not self._negligible(interval):
            return "includes zero"
        return f"lies within {'half a point' if metric_style(self.task.metric).percent else NEGLIGIBLE} of zero"

    def _negligible(self, interval: Interval) -> bool:
        """Errors have units of their own: no size is small for all of them."""
        return self.task.higher_is_better and max(-interval.low, interval.high) <= NEGLIGIBLE

    @property
    def _seed(self) -> str:
        return ", with this one seed" if self.alone else ""


def alike(interval: Interval | None) -> bool:
    """Whether no resample told the two models apart, which is more than a difference of zero."""
    return interval is not None and max(abs(interval.low), abs(interval.high), abs(interval.difference)) < 1e-12


def alike_words(task: TaskCard) -> str:
    """What follows for their answers: of accuracy that they are right on the same examples, and with two classes that
    they say the same; other scores are equal for unequal answers too.
    """
    if task.metric != "accuracy" or task.kind not in ("classification", "choices"):
        return "the same score on every resample"
    return "identical answers" if len(task.labels) == 2 else "right on the same examples"
