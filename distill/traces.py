"""What the stages of a finished job left behind, as a record has it: cards and curves."""

from collections.abc import Mapping
from pathlib import Path

from distill.job import Job
from distill.journal import journal_rows, teacher_layer_of
from distill.schedules import value_at
from distill.shapes import any_depth
from distill.stages import Stage
from distill.terms import is_part
from reports.record import Curve, StageCard
from teacher.history import Row, read_rows


def stage_cards(job: Job, sizes: Mapping[str, int]) -> list[StageCard]:
    """One a stage, in order; `sizes`: set to its examples."""
    return [
        StageCard(
            name=stage.name,
            description=" ".join([stage.words, *_drawn_from(stage, sizes)]),
            losses={name: value_at(weight, 0.0) for name, weight in stage.losses.items()},
            schedules=stage.schedules(),
            steps=outcome["steps"],
            epochs=outcome["epochs"],
            seconds=outcome["seconds"],
            examples=outcome["examples"],
            learning_rate=stage.learning_rate,
            selected_step=outcome["selected_step"],
        )
        for stage, outcome in zip(job.stages, job.outcomes(), strict=True)
    ]


def _drawn_from(stage: Stage, sizes: Mapping[str, int]) -> list[str]:
    """A sentence on the examples of a stage that is not trained on the labelled rows alone."""
    if stage.data not in ("augmented", "mixed"):
        return []
    shares = {name: stage.mix.get(name) for name in stage.sets}
    total = sum(share or 0.0 for share in shares.values())
    parts = [f"{sizes[name]:,} {name}" + (f" ({share / total:.0%})" if share else "") for name, share in shares.items()]
    return [f"Drawn from {' and '.join(parts)} examples."]


def compared_layers(job: Job, teachers: int) -> tuple[int, ...]:
    """The teacher layer, of so many, that each layer of the student was compared with in the end.

    Evenly spaced ones where no stage compared layers.
    """
    mapped = [stage for stage in job.stages if stage.needs("mapped")]
    layers = any_depth(mapped[-1].layers if mapped else "uniform", job.student.layers, teachers)
    if not mapped or mapped[-1].layers != "nearest":
        return layers
    found = {name: value for row in journal_rows(job.folder / mapped[-1].name) for name, value in row.values.items()}
    return tuple(int(found.get(teacher_layer_of(own), layer)) for own, layer in enumerate(layers, start=1))


def stage_curves(stage: str, folder: Path) -> tuple[Curve, ...]:
    """From the history and the journal of a stage."""
    return curves_of(stage, [*read_rows(folder / "history.jsonl"), *journal_rows(folder)])


def curves_of(stage: str, rows: list[Row]) -> tuple[Curve, ...]:
    """One series a name that occurs in the rows. Parts of terms stay in the history: there may be dozens."""
    names = dict.fromkeys(name for row in rows for name in row.values if not is_part(name))
    series = {name: [(row.step, row.values[name]) for row in rows if name in row.values] for name in names}
    return tuple(
        Curve(
            stage=stage, name=name, steps=tuple(step for step, _ in points), values=tuple(value for _, value in points)
        )
        for name, points in series.items()
    )
