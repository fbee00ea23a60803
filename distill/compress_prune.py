"""The step of a chain that prunes: to a share of parameters, FLOPs or milliseconds, with recovery in between."""

import copy
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor
from transformers import PreTrainedModel

from common.artifact import CardText, save
from common.families import max_length as longest
from common.progress import say
from distill.compress_chain import Artifact
from distill.compress_options import CompressOptions
from distill.measure import measure_latency
from distill.placed_answers import Answers, Placed, placed
from distill.recovery import SAMPLE, Training, recover, recovery_stage
from students.anatomy import check_prunable
from students.importance import at_random
from students.prune import pruned
from students.pruned_shape import EncoderShape, in_words, model_in_shape, shape_of
from students.ranking import Kept, check_reachable, ranked
from teacher.checkpoint import Checkpoints
from teacher.prepare import Prepared, model_inputs, output_logits, prepare, tune
from teacher.sources import load_for_task
from teacher.tasks.base import Task

Cost = Callable[[EncoderShape], float]


def check_share(model: PreTrainedModel, options: CompressOptions, cost: Cost) -> None:
    """Raise UserError where the model has not so much that could go, or is of a family that cannot be pruned."""
    shape = shape_of(model)
    bundles = ranked(shape, at_random(model, 0), options.parts, even=options.prune_even)
    check_reachable(shape, bundles, cost, (1 - (options.prune or 0.0)) * cost(shape))


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """Prunes a model folder; an interrupted one is gone on with."""

    task: Task
    options: CompressOptions
    training: Training
    max_length: int
    answers: Callable[[], Answers]
    """The teacher's to the training split; asked for where there is recovery."""

    def __call__(self, artifact: Artifact, folder: Path) -> Artifact:
        """The pruned model in `folder`."""
        loaded = load_for_task(str(artifact.folder), self.task, seed=0)
        check_prunable(loaded.model.config)
        prepared = prepare(self.task, loaded.tokenizer, min(self.max_length, longest(loaded.model.config)))
        cost = cost_of(self.options.prune_target, loaded.model)
        # Before minutes go into the first step of several.
        check_share(loaded.model, self.options, cost)
        whole = cost(shape_of(loaded.model))
        current = loaded.model
        layers = tuple(range(1, len(shape_of(current).heads) + 1))
        answers = placed(self.task, self.answers(), prepared.splits["train"]) if self.options.recovery else None
        notes = () if answers is None else answers.notes
        for note in notes:
            say(f"  {note}")
        for number, epochs in enumerate(self.options.recovery_lengths(), start=1):
            share = (self.options.prune or 0.0) * number / self.options.prune_steps
            most, own = (1 - share) * whole, folder / f"prune-{number}"
            current, layers = self._step(current, loaded.model, prepared, layers, cost, most, answers, epochs, own)
        shape = shape_of(current)
        say(f"pruned to {in_words(shape)}: {1 - cost(shape) / whole:.1%} of the {self.options.prune_target} are gone")
        words = f"{in_words(shape_of(loaded.model))} became {in_words(shape)}"
        self._save(current, prepared, folder / "model", words)
        return Artifact(folder=folder / "model", notes=(words, *notes))

    def _step(
        self,
        current: PreTrainedModel,
        before: PreTrainedModel,
        prepared: Prepared,
        layers: tuple[int, ...],
        cost: Cost,
        most: float,
        answers: Placed | None,
        epochs: float,
        folder: Path,
    ) -> tuple[PreTrainedModel, tuple[int, ...]]:
        """The model one step smaller, recovered, and the layers of `before` that its own are, counted from 1."""
        stored = _Stored(folder, self.task)
        if stored.recovered is not None:
            return stored.recovered
        if stored.cut is None:
            smaller, kept = self._cut(current, prepared, cost, most)
            stored.keep("cut", smaller, prepared, tuple(layers[index] for index in kept.layers))
            stored = _Stored(folder, self.task)
        assert stored.cut is not None
        smaller, layers = stored.cut
        if answers is not None:
            smaller = self._recovered(smaller, before, prepared, layers, answers, epochs, folder)
        stored.keep("recovered", smaller, prepared, layers)
        return smaller, layers

    def _recovered(
        self,
        smaller: PreTrainedModel,
        before: PreTrainedModel,
        prepared: Prepared,
        layers: tuple[int, ...],
        answers: Placed,
        epochs: float,
        folder: Path,
    ) -> PreTrainedModel:
        """The model after recovery, or as it was where that did it no good on the selection split."""
        first = prepared.score(smaller, "select", self.training.precision)
        unrecovered = copy.deepcopy(smaller)
        recover(
            smaller,
            before,
            prepared,
            answers,
            recovery_stage(layers, epochs=epochs, learning_rate=self.training.learning_rate),
            self.training,
            folder / "training",
            label=f"recovery, {in_words(shape_of(smaller))}",
        )
        Checkpoints.clear(folder / "training")
        after = prepared.score(smaller, "select", self.training.precision)
        values = [f"{self.task.signed(score):.4f}" for score in (first, after)]
        say(f"  {self.task.data.metric} on the selection split: {values[0]} pruned, {values[1]} recovered")
        if after >= first:
            return smaller
        say("  recovery did no good and is left out: more rows, or another --recovery-rate, may help")
        return unrecovered

    def _cut(self, model: PreTrainedModel, prepared: Prepared, cost: Cost, most: float) -> tuple[PreTrainedModel, Kept]:
        def loss(batch: Mapping[str, Tensor]) -> Tensor:
            return self.task.loss(output_logits(model(**model_inputs(model, batch)), batch).float(), batch["labels"])

        return pruned(
            model,
            prepared.sample(SAMPLE),
            loss,
            parts=self.options.parts,
            cost=cost,
            most=most,
            importance=self.options.importance,
            even=self.options.prune_even,
            seed=self.training.seed,
        )

    def _save(self, model: PreTrainedModel, prepared: Prepared, folder: Path, words: str) -> None:
        name = self.task.data.name
        description = f"Pruned ({self.options.importance}): {words}."
        card = CardText(title=f"{name}: pruned", description=description, task=name)
        tune(model, prepared)
        save(model, prepared.tokenizer, folder, card=card, max_length=prepared.max_length, replace=True)


class _Stored:
    """The two moments of a step of pruning that are kept: cut, and recovered."""

    def __init__(self, folder: Path, task: Task) -> None:
        self.folder, self.task = folder, task
        self.recovered = self._load("recovered")
        self.cut = self._load("cut")

    def _load(self, name: str) -> tuple[PreTrainedModel, tuple[int, ...]] | None:
        if not (self.folder / name / "layers.txt").is_file():
            return None
        loaded = load_for_task(str(self.folder / name), self.task, seed=0)
        layers = (self.folder / name / "layers.txt").read_text(encoding="utf-8").split()
        return loaded.model.eval(), tuple(map(int, layers))

    def keep(self, name: str, model: PreTrainedModel, prepared: Prepared, layers: tuple[int, ...]) -> None:
        card = CardText(title=f"pruning: {name}", description="Between two steps.", task=self.task.data.name)
        files = {"layers.txt": " ".join(map(str, layers)) + "\n"}
        save(model, prepared.tokenizer, self.folder / name, card=card, replace=True, files=files)


def cost_of(target: str, model: PreTrainedModel) -> Cost:
    """What a share of `model` is of, a key of --prune-target, by shape."""
    if target == "parameters":
        return lambda shape: shape.encoder_parameters
    if target == "flops":
        return lambda shape: shape.flops(min(128, longest(model.config)))
    return functools.cache(functools.partial(_milliseconds, model))


def _milliseconds(model: PreTrainedModel, shape: EncoderShape) -> float:
    """At batch 1, 16 pieces, one thread, as a share of the time of `model`, measured in turns."""
    pair = {"whole": model, "cut": model_in_shape(model, shape)}
    lengths = (min(16, longest(model.config)),)
    times = measure_latency(pair, batches=(1,), lengths=lengths, threads=(1,), seconds=1.0, shown=False)
    share = times["cut"][0].p50_ms / times["whole"][0].p50_ms
    say(f"  {in_words(shape)}: {share:.2f} of the time")
    return share
