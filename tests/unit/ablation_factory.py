"""The record of an ablation as `teacher.ablate` would write it, made up, for tests of pages."""

import numpy as np
from unit import record_factory

from common.ablation_record import AblationRecord, AblationTask, Pretraining, Row, Series, Study
from common.bootstrap import Interval

FIGURES = {
    "mlm + nsp": {"mlm_loss": 4.52, "mlm_accuracy": 0.283, "nsp_accuracy": 0.714, "nsp_majority": 0.561},
    "mlm": {"mlm_loss": 4.41, "mlm_accuracy": 0.297},
    "ltr": {"ltr_loss": 4.63, "ltr_accuracy": 0.246},
}


def pretraining(
    encoder: str, held_out: dict[str, float], *, seconds: float = 301.5, parameters: int = 5_400_000
) -> Pretraining:
    steps = tuple(range(200, 2001, 200))
    return Pretraining(
        encoder=f"{encoder}-seed-0-01234567",
        steps=2000.0,
        tokens=3.4e6,
        seconds=seconds,
        parameters=parameters,
        unigram_loss=6.71,
        held_out=held_out,
        curves=tuple(
            Series(
                name=name,
                steps=steps,
                values=tuple(
                    value + (6.7 - value) * float(np.exp(-step / 500)) * (1 if "loss" in name else -0.05)
                    for step in steps
                ),
            )
            for name, value in held_out.items()
            if not name.endswith("_majority")
        ),
    )


def row(
    name: str, values: tuple[float, ...], interval: tuple[float, float] | None, made: Pretraining, **changes: object
) -> Row:
    """`interval`: low and high of the difference to the first row, which is in the middle."""
    options: dict = {
        "name": name,
        "description": "what was done",
        "value": float(np.mean(values)),
        "spread": float(np.std(values, ddof=1)) if len(values) > 1 else None,
        "by_seed": {str(seed): value for seed, value in enumerate(values)},
        "metrics": {"accuracy": float(np.mean(values)), "macro_f1": float(np.mean(values)) - 0.01},
        "against_first": None
        if interval is None
        else Interval(difference=sum(interval) / 2, low=interval[0], high=interval[1]),
        "task_seconds": 74.2,
        "pretraining": made,
    }
    return Row(**(options | changes))


def objective() -> Study:
    return Study(
        name="objective",
        title="Objective",
        question="What is the next sentence worth?",
        rows=(
            row("MLM + NSP", (0.701, 0.709, 0.704), None, pretraining("mlm-nsp", FIGURES["mlm + nsp"])),
            row("MLM, no NSP", (0.704, 0.712, 0.699), (-0.008, 0.010), pretraining("mlm", FIGURES["mlm"])),
            row(
                "left to right, no NSP",
                (0.662, 0.655, 0.671),
                (-0.056, -0.028),
                pretraining("ltr", FIGURES["ltr"], seconds=267.0),
                notes=("seed 2: no context was learned",),
            ),
        ),
        notes=("Left to right, the last piece is read.",),
    )


def features() -> Study:
    one = pretraining("mlm-nsp", FIGURES["mlm + nsp"])
    return Study(
        name="features",
        title="Features",
        question="How near do frozen states come?",
        rows=(
            row("fine-tuned", (0.701, 0.709, 0.704), None, one),
            row("embeddings", (0.60, 0.61, 0.605), (-0.12, -0.08), one),
            row("last four, concatenated", (0.69, 0.685, 0.70), (-0.025, -0.001), one),
        ),
    )


def record(**changes: object) -> AblationRecord:
    values: dict = {
        "name": "ablation",
        "provenance": record_factory.provenance(),
        "task": AblationTask(
            name="pydocs",
            kind="classification",
            classes=10,
            metric="accuracy",
            higher_is_better=True,
            rows={"train": 12000, "select": 2000, "evaluate": 4000},
            origins={"train": "docstrings of 1,204 modules"},
            majority=0.2312,
            fingerprint="5f2c9a1be0774d13",
            notes=("3,112 duplicates removed",),
        ),
        "corpus": "pydocs",
        "corpus_fingerprint": "aa11bb22",
        "budget": "Equal steps: every encoder was pretrained for 2,000 steps.",
        "studies": (objective(), features()),
    }
    return AblationRecord(**(values | changes))
