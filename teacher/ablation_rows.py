"""From pretrained encoders and their answers to the rows of a study."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common.ablation_record import Pretraining, Row, Study
from common.bootstrap import mean_and_spread
from common.pretraining_record import FILE as PRETRAINING
from common.pretraining_record import PretrainingRecord
from teacher.ablation_answers import Answers
from teacher.ablation_studies import Plan, Variant
from teacher.difference import difference
from teacher.pretrain_folder import read_summary
from teacher.tasks.base import Task


@dataclass(frozen=True, kw_only=True)
class Finished:
    """One seed of a row."""

    encoder: Path
    answers: Answers


Results = Mapping[str, Mapping[int, Finished]]
"""Of a study: variant's name to seed to what came out."""


def study(plan: Plan, results: Results, task: Task) -> Study:
    """The study that `plan` planned, with what came out."""
    first = plan.variants[0].name
    return Study(
        name=plan.name,
        title=plan.title,
        question=plan.question,
        rows=tuple(
            _row(variant, results[variant.name], None if variant.name == first else results[first], task)
            for variant in plan.variants
        ),
        notes=plan.notes,
    )


def _row(variant: Variant, seeds: Mapping[int, Finished], first: Mapping[int, Finished] | None, task: Task) -> Row:
    """`first`: the same seeds of the row to compare with."""
    references = task.label_array(task.data.splits["evaluate"])
    metric = task.data.metric
    scores = {seed: task.metrics(one.answers.predictions, references) for seed, one in seeds.items()}
    value, spread = mean_and_spread([found[metric] for found in scores.values()])
    summaries = [read_summary(one.encoder) for one in seeds.values()]
    return Row(
        name=variant.name,
        description=variant.description,
        value=value,
        spread=spread,
        by_seed={str(seed): found[metric] for seed, found in scores.items()},
        metrics=_means(list(scores.values())),
        against_first=None if first is None else difference(task, _predictions(seeds), _predictions(first), references),
        task_seconds=float(np.mean([one.answers.seconds for one in seeds.values()])),
        pretraining=_pretraining(next(iter(seeds.values())).encoder, summaries),
        notes=tuple(
            f"seed {seed}: {note}" for seed, summary in zip(seeds, summaries, strict=True) for note in summary["notes"]
        ),
    )


def _predictions(seeds: Mapping[int, Finished]) -> list[np.ndarray]:
    return [one.answers.predictions for one in seeds.values()]


def _pretraining(first: Path, summaries: Sequence[Mapping[str, Any]]) -> Pretraining:
    steps, tokens, seconds, unigram = (
        float(np.mean([summary[name] for summary in summaries]))
        for name in ("steps", "tokens", "seconds", "unigram_loss")
    )
    return Pretraining(
        encoder=first.name,
        steps=steps,
        tokens=tokens,
        seconds=seconds,
        parameters=summaries[0]["parameters"],
        unigram_loss=unigram,
        held_out=_means([summary["held_out"] for summary in summaries]),
        curves=PretrainingRecord.load(first / PRETRAINING).held_out,
    )


def _means(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([values[name] for values in found])) for name in found[0]}
