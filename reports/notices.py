"""What a reader must know before the figures of a run: computed from the record, and shown beside its own notes."""

from common.words import counted
from reports.cells import in_order, seeds_of, teacher_of
from reports.record import Interval, ModelCard, Record
from reports.statistics import smallest_visible
from reports.twins import SMALL
from reports.words import MetricStyle, metric_style


def notices(record: Record) -> list[str]:
    """Sentences: undistilled models and baselines better than the teacher, a single seed, a small evaluation split."""
    teacher = teacher_of(record)
    better = [] if teacher is None else [_better(card, teacher, record) for card in in_order(record)]
    return [text for text in (*better, _of_seeds(record), _small(record)) if text]


def _better(card: ModelCard, teacher: ModelCard, record: Record) -> str:
    """Empty for students: their headline says how they stand to the teacher."""
    sign = 1 if record.task.higher_is_better else -1
    interval, style = card.quality.against_teacher, metric_style(record.task.metric)
    difference = interval.difference if interval else card.quality.value - teacher.quality.value
    if card.role not in ("twin", "baseline") or sign * difference <= 0:
        return ""
    lead = f"{style.difference(difference)}{'' if style.percent else f' of {style.label}'}"
    if interval is None:
        return f"{card.name} is ahead of the teacher by {lead}; there is no interval, so nothing is decided."
    return _with_interval(card.name, lead, interval, style)


def _with_interval(name: str, lead: str, interval: Interval, style: MetricStyle) -> str:
    level = f"{interval.level * 100:g} % interval {style.interval(interval)}"
    if interval.low <= 0 <= interval.high:
        return f"{name} is ahead of the teacher by {lead}, but the {level} includes zero."
    return f"{name} is better than the teacher by {lead} ({level})."


def _of_seeds(record: Record) -> str:
    """Of one seed: what the intervals leave out is as large as what distillation adds, often."""
    intervals = [card.quality.against_teacher or card.quality.against_twin for card in record.models]
    if seeds_of(record) > 1 or not any(intervals):
        return ""
    return (
        "One seed of each student: the intervals are over examples alone. What another draw of weights and order would "
        "change is not in them, and may be more than any difference here."
    )


def _small(record: Record) -> str:
    """Only of accuracy the smallest difference is known beforehand; seeds make it smaller, never larger."""
    quality = (teacher_of(record) or record.models[0]).quality
    if quality.n >= SMALL or quality.n < 1:
        return ""
    lead = f"The evaluation set is small, only {counted(quality.n, 'example')}"
    if quality.metric != "accuracy":
        return f"{lead}: small differences can't be seen."
    count = smallest_visible(quality.n)
    points = metric_style(quality.metric).difference(count / quality.n)
    return f"{lead}: differences under {points} ({counted(count, 'example')}) can't be seen."
