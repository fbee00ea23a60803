"""Contestant: this project's own stage, with an option to switch off each thing that makes it fast."""

import argparse
import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from contest import Contestant, Meter, compete, parser
from torch import Tensor
from transformers import PreTrainedModel

from distill.cache import StoredFeatures, Wanted, write_features
from distill.distiller import Distiller, without_dropout
from distill.outputs import Features
from distill.stages import Stage
from teacher.attention import training_attention
from teacher.batches import Batches
from teacher.data import TaskData
from teacher.loop import train
from teacher.loop_config import resolve_precision
from teacher.prepare import Prepared, predict_logits
from teacher.rows import only_rows
from teacher.tasks.base import Encoded
from teacher.tasks.sequence import Classification

SST2 = TaskData(
    name="sst2",
    kind="classification",
    labels=("negative", "positive"),
    metric="accuracy",
    splits={},
    origins={},
    fingerprint="",
    sources={},
)
LAYERS = {"embedding": 1.0, "hidden": 1.0, "attention": 1.0}


@dataclass(frozen=True, kw_only=True)
class RandomBatches(Batches):
    """Without buckets: texts of any length side by side."""

    @property
    def steps_per_epoch(self) -> int:
        return -(-len(self.lengths) // self.batch_size)

    def plan(self, epoch: int) -> list[np.ndarray]:
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.lengths))
        return [order[cut : cut + self.batch_size] for cut in range(0, len(order), self.batch_size)]


class SomeRows(StoredFeatures):
    """The insides of some texts, asked for by their places among all."""

    def __init__(self, folder: Path, wanted: Wanted, places: np.ndarray, *, layers: int, heads: int) -> None:
        super().__init__(folder, wanted, layers=layers, heads=heads)
        self._places = places

    def features(self, indices: Sequence[int], length: int, logits: Tensor) -> Features:
        return super().features(self._places[list(indices)].tolist(), length, logits)


class Ours(Contestant):
    """A stage on the teacher's logits, with --intermediate also on its layers; both are computed once."""

    name = "ours"

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self._teacher = self.work.model("teacher")
        self._prepared = Prepared(
            task=Classification(SST2),
            tokenizer=self.work.tokenizer(),
            splits={"train": _encoded(self.train_split.ids), "dev": _encoded(self.work.split("dev").ids)},
            max_length=128,
        )
        self._batches = self._batches_of(options)
        self._precision = resolve_precision(options.precision)
        self._every_step = options.teacher_forward_each_step
        self._logits: Tensor | None = None
        self._stored: StoredFeatures | None = None
        self._folder = tempfile.TemporaryDirectory()

    @property
    def steps_per_epoch(self) -> int:
        return self._batches.steps_per_epoch

    def prepare(self, steps: int) -> int:
        """The teacher's logits, and insides where they are asked for, for the texts of the first `steps` steps."""
        if self._every_step:
            return 0
        rows = np.unique(np.concatenate(self._batches.plan(0)[:steps]))
        part = _encoded([self.train_split.ids[row] for row in rows])
        prepared = dataclasses.replace(self._prepared, splits={"train": part})
        self._logits = torch.full((len(self.train_split.ids), len(SST2.labels)), torch.nan)
        self._logits[rows] = torch.from_numpy(
            predict_logits(self._teacher, prepared, "train", precision=self._precision)
        )
        if self.options.intermediate:
            self._stored = self._insides(rows, part)
        return len(rows)

    def _insides(self, rows: np.ndarray, part: Encoded) -> StoredFeatures:
        layers = [int(layer) for layer in self.options.layers.split(",")]
        wanted = Wanted(hidden=frozenset({0, *layers}), attention=frozenset(layers))
        folder, config = Path(self._folder.name) / "insides", self._teacher.config
        with training_attention(self._teacher):
            write_features(
                self._teacher.eval(),
                part,
                lambda indices: self._prepared.task.collate(part, indices, self._prepared.pad),
                wanted,
                folder,
                bf16=self._precision == "bf16",
                advance=lambda count: None,
            )
        places = np.zeros(len(self.train_split.ids), dtype=np.int64)
        places[rows] = np.arange(len(rows))
        return SomeRows(folder, wanted, places, layers=config.num_hidden_layers, heads=config.num_attention_heads)

    def train(self, student: PreTrainedModel, steps: int, meter: Meter) -> None:
        options = self.options
        stage = self._stage(steps)
        distiller = Distiller(
            student,
            self._teacher if self._every_step or options.intermediate else None,
            stage,
            self._prepared.task,
            projection=torch.nn.Identity(),
            teacher_logits=None if self._every_step else self._logits,
            stored=self._stored,
            lengths=self._batches.lengths,
        )
        batches = _metered(self._batches, meter)
        settings = stage.loop(
            examples=len(batches.lengths), seed=options.seed, precision=self._precision, checkpoint_every=steps + 1
        )
        with self._levers(student), tempfile.TemporaryDirectory() as folder:
            train(distiller, batches, settings, Path(folder), label="ours")

    def _stage(self, steps: int) -> Stage:
        options = self.options
        return Stage(
            name="bench",
            description="The fine-tuned teacher's logits.",
            teacher="finetuned",
            data="train",
            losses={"soft": 1.0} | (LAYERS if options.intermediate else {}),
            temperature=options.temperature,
            layers=options.layers,
            learning_rate=options.learning_rate,
            steps=steps,
        )

    def _batches_of(self, options: argparse.Namespace) -> Batches:
        batches = self._prepared.batches("train", options.texts, options.seed)
        if options.random_batches:
            return RandomBatches(**vars(batches))
        return dataclasses.replace(batches, tokens=options.tokens or None)

    @contextlib.contextmanager
    def _levers(self, student: PreTrainedModel) -> Iterator[None]:
        options = self.options
        with contextlib.ExitStack() as stack:
            if not options.all_rows:
                stack.enter_context(only_rows(student, self._prepared.occurring("train", "dev")))
            if not options.dropout:
                stack.enter_context(without_dropout(student))
            if options.one_lane:
                stack.enter_context(mock.patch("teacher.step.lanes_for", return_value=1))
            yield


def _encoded(ids: list[np.ndarray]) -> Encoded:
    """Without labels, which distilling does not read."""
    return Encoded(
        input_ids=ids,
        token_types=[np.zeros_like(text) for text in ids],
        labels=np.zeros(len(ids), dtype=np.int64),
        max_length=128,
        truncated=0,
    )


def _metered(batches: Batches, meter: Meter) -> Batches:
    def collate(indices: Sequence[int], step: int) -> dict[str, Tensor]:
        batch = batches.collate(indices, step)
        meter.saw(batch["input_ids"])
        return batch

    return dataclasses.replace(batches, collate=collate)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--learning-rate", type=float, default=2e-4)
    options.add_argument("--temperature", type=float, default=2.0)
    options.add_argument("--tokens", type=int, default=1024, help="of a batch, padding counted; 0: --texts a batch")
    options.add_argument("--precision", choices=("fp32", "bf16", "auto"), default="auto")
    options.add_argument("--intermediate", action="store_true", help="embeddings, hidden states and scores as well")
    options.add_argument("--random-batches", action="store_true", help="--texts of any length a batch")
    options.add_argument("--teacher-forward-each-step", action="store_true")
    options.add_argument("--all-rows", action="store_true", help="train the whole embedding table")
    options.add_argument("--dropout", action="store_true")
    options.add_argument("--one-lane", action="store_true", help="all threads inside every operation")
    compete(Ours(options.parse_args()))


if __name__ == "__main__":
    main()
