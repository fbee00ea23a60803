"""What pretraining is worth on a task: `mini` against random weights, and `minilm` further against `minilm` as it is.

Encoders of one shape learn the task with one recipe, --seeds times each. Pretraining from nothing is compared with the
same shape and vocabulary from random weights; pretraining further with the same encoder as it is, and, where a gain is
seen though the pretraining is not counted, with the same encoder and as many more epochs of the task as that took. What
is finished is read again, so that the table can be made in several sittings.
"""

import argparse
import dataclasses
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rounds import gap, machine, points, table
from transformers import AutoConfig, AutoModel, AutoTokenizer

from common.bootstrap import Interval, mean_and_spread
from common.files import new_folder, write_json, write_text
from common.progress import say
from teacher.ablation_answers import Answers, Respondent
from teacher.difference import difference, majority
from teacher.options import FinetuneOptions, TaskOptions
from teacher.pretrain import pretrain
from teacher.pretrain_config import PretrainConfig
from teacher.pretrain_folder import read_summary
from teacher.pretrain_options import ScheduleOptions, StartOptions
from teacher.sources import minilm_folder
from teacher.tasks import task_for
from teacher.tasks.base import Task

POINTS = ScheduleOptions(evaluate_every=500)
HEADER = ("encoder", "score", "by seed", "difference", "pretraining", "learning the task, minutes")


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row of the table: one encoder with every seed."""

    name: str
    answers: Sequence[Answers]
    pretraining: str = "none"
    against: tuple["Line", ...] = ()

    @property
    def minutes(self) -> float:
        return float(np.median([one.seconds for one in self.answers])) / 60


def main() -> None:
    options = _options()
    config = TaskOptions(task=options.task, data_dir=options.data_dir)
    task = task_for(config.load())
    bench = Bench(options, task, config.max_length)
    lines = [*bench.from_nothing(), *bench.further()]
    page = table(HEADER, [_cells(line, bench) for line in lines])
    page += (
        f"\n\nWithout reading: {100 * majority(task, bench.references):.2f}, {task.data.metric}, "
        f"n = {len(bench.references)}"
    )
    say(page)
    write_text(options.out / "worth.md", page + "\n")
    write_json(options.out / "worth.json", {"command": sys.argv, "machine": machine(), "page": page})


class Bench:
    """The encoders and what they answer."""

    def __init__(self, options: argparse.Namespace, task: Task, max_length: int) -> None:
        self.task = task
        self.references = task.label_array(task.data.splits["evaluate"])
        self._options = options
        self._recipe = FinetuneOptions()
        self._respondent = Respondent(
            task, options.out / "answers", max_length=max_length, precision="auto", checkpoint_every=200
        )

    def from_nothing(self) -> Iterator[Line]:
        """`--size`, pretrained for `--minutes`, and from random weights."""
        if not self._options.minutes:
            return
        folder = self._options.out / f"{self._options.size}-{self._options.minutes:g}min"
        settings = PretrainConfig(
            corpus=self._options.corpus,
            size=self._options.size,
            minutes=self._options.minutes,
            schedule=POINTS,
            resume=True,
        )
        encoder = pretrain(settings, folder)
        plain = Line(
            name=f"{self._options.size}, random weights",
            answers=[self._answers(self._random(encoder, seed), seed) for seed in self._seeds],
        )
        yield plain
        yield self._pretrained(f"{self._options.size}, pretrained", encoder, (plain,))

    def further(self) -> Iterator[Line]:
        """`minilm`, for `--further-minutes` more, and as it is."""
        source = minilm_folder()
        if not self._options.further_minutes or source is None:
            return
        plain = Line(name="minilm", answers=self._every_seed(source))
        yield plain
        settings = PretrainConfig(
            corpus=self._options.corpus,
            objective="mlm",
            minutes=self._options.further_minutes,
            start=StartOptions(source="minilm"),
            schedule=POINTS,
            resume=True,
        )
        encoder = pretrain(settings, self._options.out / f"minilm-further-{self._options.further_minutes:g}min")
        further = self._pretrained("minilm, further", encoder, (plain,))
        if self.difference(further, plain).low <= 0:
            yield further
            return
        # Of all, since both learn the same number of steps, and one may have been disturbed.
        seconds = float(np.median([one.seconds for one in (*plain.answers, *further.answers)]))
        epochs = round(self._recipe.teacher_epochs * (1 + read_summary(encoder)["seconds"] / seconds))
        longer = Line(name=f"minilm, {epochs} epochs", answers=self._every_seed(source, epochs), against=(plain,))
        yield longer
        yield dataclasses.replace(further, against=(plain, longer))

    def _pretrained(self, name: str, encoder: Path, against: tuple[Line, ...]) -> Line:
        summary = read_summary(encoder)
        told = f"{summary['steps']:,} steps, {summary['tokens'] / 1e6:.1f} M pieces, {summary['seconds'] / 60:.1f} min"
        return Line(name=name, answers=self._every_seed(encoder), pretraining=told, against=against)

    def scores(self, line: Line) -> list[float]:
        """The task's main metric, seed by seed."""
        return [self.task.metrics(one.predictions, self.references)[self.task.data.metric] for one in line.answers]

    def difference(self, line: Line, other: Line) -> Interval:
        first, second = ([one.predictions for one in answers] for answers in (line.answers, other.answers))
        return difference(self.task, first, second, self.references)

    @property
    def _seeds(self) -> range:
        return range(self._options.seeds)

    def _every_seed(self, encoder: Path, epochs: int | None = None) -> list[Answers]:
        return [self._answers(encoder, seed, epochs) for seed in self._seeds]

    def _answers(self, encoder: Path, seed: int, epochs: int | None = None) -> Answers:
        recipe = dataclasses.replace(self._recipe, teacher_seed=seed)
        if epochs is not None:
            recipe = dataclasses.replace(recipe, teacher_epochs=float(epochs))
        return self._respondent.answers(encoder, recipe, None)

    def _random(self, encoder: Path, seed: int) -> Path:
        """A folder with the shape and the vocabulary of `encoder`, and weights that have learned nothing."""
        folder = self._options.out / f"{encoder.name}-random-{seed}"
        if not folder.is_dir():
            torch.manual_seed(seed)
            with new_folder(folder) as target:
                AutoModel.from_config(AutoConfig.from_pretrained(encoder)).save_pretrained(target)
                AutoTokenizer.from_pretrained(encoder).save_pretrained(target)
        return folder


def _cells(line: Line, bench: Bench) -> tuple[str, ...]:
    scores = bench.scores(line)
    value, spread = mean_and_spread(scores)
    return (
        line.name,
        points(value, spread),
        ", ".join(f"{100 * score:.2f}" for score in scores),
        "; ".join(f"{gap(bench.difference(line, other))} to {other.name}" for other in line.against),
        line.pretraining,
        f"{line.minutes:.1f}",
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="pydocs")
    parser.add_argument("--data-dir", type=Path, help="folder with GLUE's files, for its tasks")
    parser.add_argument("--corpus", default="pydocs", help="text that is pretrained on")
    parser.add_argument("--size", default="mini", help="of the encoder from nothing")
    parser.add_argument("--minutes", type=float, default=30.0, help="of its pretraining; 0: leave it out")
    parser.add_argument("--further-minutes", type=float, default=10.0, help="of minilm's; 0: leave it out")
    parser.add_argument("--seeds", type=int, default=3, help="times that each learns the task")
    parser.add_argument("--out", type=Path, default=Path("runs/bench/worth"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
