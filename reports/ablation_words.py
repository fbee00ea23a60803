"""What an ablation of pretraining says, in sentences that claim no more than the spread carries."""

from common.ablation_record import AblationRecord, Row, Study
from common.bootstrap import Interval
from common.words import counted
from reports.statistics import smallest_visible
from reports.twins import SMALL
from reports.words import MetricStyle, metric_style


def verdict(row: Row, study: Study, record: AblationRecord) -> str:
    """One row against the study's first, to follow its name: "is 2.1 points better than MLM, no NSP (...)"."""
    style = metric_style(record.task.metric)
    interval, first = row.against_first, study.rows[0].name
    if interval is None:
        unit = " %" if style.percent else ""
        compared = ": what the others are compared with" if len(study.rows) > 1 else ""
        return f"reaches {style.value(row.value)}{unit}{compared}."
    level = f"{100 * interval.level:g} % interval {style.interval(interval)}"
    if not seen(interval):
        points = " points" if style.percent else ""
        difference = f"{style.signed(interval.difference)}{points}, and the {level} includes zero"
        return f"\N{EN DASH} no difference to {first} is seen: {difference}."
    better = (interval.difference > 0) == record.task.higher_is_better
    alone = "" if record.seeds > 1 else ", with this one seed"
    return f"is {_amount(style, interval)} {'better' if better else 'worse'} than {first}{alone} ({level})."


def seen(interval: Interval) -> bool:
    """Whether zero is outside."""
    return not interval.low <= 0 <= interval.high


def _amount(style: MetricStyle, interval: Interval) -> str:
    return f"{style.difference(interval.difference)}{'' if style.percent else f' of {style.label}'}"


def notices(record: AblationRecord) -> list[str]:
    """What a reader must know first: the budget, what the intervals hold, small data, what was not learned."""
    return [
        record.budget,
        *record.notes,
        _of_seeds(record.seeds),
        *_small(record),
        *_guessing(record),
        *_unlearned(record),
    ]


def _of_seeds(seeds: int) -> str:
    if seeds == 1:
        return (
            "One seed a row: the intervals are over examples alone. What other draws of weights, text and order would "
            "change is not in them, and may be more than any difference here."
        )
    return (
        f"{seeds} seeds a row, each pretrained anew. The intervals draw examples and seeds again; of the variance that "
        f"seeds bring, {seeds} show about {100 * (seeds - 1) / seeds:.0f} %. Where an interval ends close to zero, "
        "more seeds may decide otherwise."
    )


def _small(record: AblationRecord) -> list[str]:
    count = record.task.rows["evaluate"]
    if count >= SMALL or record.task.metric != "accuracy":
        return []
    points = metric_style("accuracy").difference(smallest_visible(count) / count)
    return [f"The evaluation set is small, only {counted(count, 'example')}: differences under {points} can't be seen."]


def _guessing(record: AblationRecord) -> list[str]:
    """The rows that are no better than one answer for all, whose differences mean nothing."""
    sign = 1 if record.task.higher_is_better else -1
    found = [
        row.name for study in record.studies for row in study.rows if sign * (row.value - record.task.majority) <= 0
    ]
    if not found:
        return []
    style = metric_style(record.task.metric)
    told = (
        f"No better than one answer for all ({style.value(record.task.majority)}): {', '.join(dict.fromkeys(found))}."
    )
    return [f"{told} These learned nothing of the task, and differences to them say nothing of what was studied."]


def _unlearned(record: AblationRecord) -> list[str]:
    """What the pretraining of rows did not learn, each encoder once."""
    found = {note: None for study in record.studies for row in study.rows for note in _named(row)}
    return list(found)


def _named(row: Row) -> list[str]:
    return [f"{row.pretraining.encoder.rpartition('-seed-')[0]}, {note}." for note in row.notes]
