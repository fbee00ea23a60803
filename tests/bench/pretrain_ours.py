"""Contestant: the training of teacher.pretrain, its data side alone, and with --profile where its time goes."""

import argparse
import dataclasses
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pretrain_pace import Meter, Work, compete, parser, pretrain_config, shape, text
from pretrain_profile import profiled
from torch import Tensor

from teacher.attention import use_training_attention
from teacher.batches import Batches
from teacher.examples import draw_examples
from teacher.lanes import LANES
from teacher.loop import train
from teacher.loop_config import resolve_precision
from teacher.objectives import OBJECTIVES
from teacher.parts import cut
from teacher.pretrain_data import training_batches
from teacher.pretrain_objective import PretrainObjective
from teacher.pretrain_text import PretrainData

DATA_SECONDS = 2.0
"""For so long at least are batches made alone."""


def batches_of(options: argparse.Namespace, data: PretrainData, folder: Path) -> Batches:
    """What teacher.pretrain would learn from."""
    config = pretrain_config(options)
    kind = OBJECTIVES[config.objective].examples
    wanted = config.examples_a_step * (options.warmup + options.steps)
    examples = draw_examples(
        data.learned, kind, length=config.length, seed=config.seed, wanted=wanted, folder=folder / "examples"
    )
    return training_batches(data, examples, batch_size=config.batch_size, length=config.length, seed=config.seed)


def objective_of(options: argparse.Namespace, data: PretrainData) -> PretrainObjective:
    """With random weights."""
    objective = OBJECTIVES[options.objective].fresh(shape(options, data), options.seed, generator_width=1.0)
    use_training_attention(objective.model)
    return objective


def watched(batches: Batches, meter: Meter) -> Batches:
    """The same batches, told to the meter as they are made."""

    def collate(indices: Sequence[int], step: int) -> dict[str, Tensor]:
        with torch.profiler.record_function("data"):
            batch = batches.collate(indices, step)
        meter.saw(batch["attention_mask"], len(batch["labels"]))
        return batch

    return dataclasses.replace(batches, collate=collate)


def data_pace(batches: Batches, threads: int) -> float:
    """Real pieces a second that one thread makes batches of, cut as they are for training."""
    lanes = LANES if threads >= LANES else 1
    pieces, made, start = 0, 0, time.perf_counter()
    for number, indices in enumerate(batches.from_batch(0)):
        for part in cut(indices, number, lanes):
            pieces += int(batches.collate(part.indices.tolist(), part.number)["attention_mask"].sum())
        made = number + 1
        if made >= 20 and time.perf_counter() - start > DATA_SECONDS:
            break
    return pieces / (time.perf_counter() - start)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--precision", default="auto")
    options.add_argument("--profile", type=Path, help="file for the operators' table; then nothing is timed")
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    data = text(given.corpus, given.work)
    objective = objective_of(given, data)
    loop = dataclasses.replace(pretrain_config(given).loop(given.warmup + given.steps), precision=given.precision)
    result: dict[str, Any] = {"precision": resolve_precision(given.precision)}
    with tempfile.TemporaryDirectory() as name, Meter() as meter:
        folder = Path(name)
        batches = batches_of(given, data, folder)
        run = partial(train, objective, watched(batches, meter), loop, folder / "training", label="pretrain")
        if given.profile is not None:
            result |= profiled(run, given.warmup, given.steps, given.profile)
        else:
            run()
            work = Work(config=objective.model.config, pooled=given.objective != "mlm")
            result |= meter.result(given.warmup, work) | {"data_pieces_a_second": data_pace(batches, given.threads)}
    result["parameters"] = objective.model.num_parameters()
    compete(given, result)


if __name__ == "__main__":
    main()
