"""A study of fine-tuning a teacher: trials are looked at while they learn, and the best are made in full."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import optuna

from common.errors import UserError
from common.families import max_length as longest
from common.files import write_json
from common.progress import say
from distill.study_config import StudyConfig
from distill.study_narrowing import narrowed
from distill.study_objectives import FACTOR, RUNGS, SCORE
from distill.study_runner import give_up
from distill.study_space import Space, Value, samples
from distill.study_teacher_space import finetune_options, teacher_space
from teacher.checkpoint import Checkpoints
from teacher.data import TaskData
from teacher.history import read_rows
from teacher.loop import SELECTION
from teacher.options import FinetuneOptions
from teacher.practice import check_practice, loop_config
from teacher.prepare import Prepared, prepare
from teacher.scratch import encoder_for, expected_config
from teacher.sources import load_for_task
from teacher.supervised import finetune
from teacher.tasks import task_for

CHECKPOINT_EVERY = 200
OUTCOME = "outcome.json"


def searched_teachers(config: StudyConfig, data: TaskData) -> Space:
    """The space, narrowed as the user wants; its ends and every choice are checked to be possible."""
    options, encoder = config.searching, expected_config(config.teacher, data, config.scratch)
    whole = teacher_space(config.finetuning, encoder, data.kind)
    space = narrowed(whole, options.fix, options.range, options.space)
    for settings in samples(space):
        check_practice(finetune_options(config.finetuning, settings), task_for(data))
    return space


def prepared_teachers(config: StudyConfig, data: TaskData, space: Space, folder: Path) -> "TeacherBench":
    """The encoder that all trials start from, pretrained here first where that is asked for.

    Raises:
        UserError: it is fine-tuned already.
    """
    source = encoder_for(
        config.teacher,
        config.runs / "teachers",
        corpus="auto",
        precision=config.precision,
        checkpoint_every=CHECKPOINT_EVERY,
        data=data,
        scratch=config.scratch,
    )
    if load_for_task(source, task_for(data), seed=0).finetuned:
        raise UserError(f"--target teacher: {config.teacher} is fine-tuned on this task already: give an encoder")
    return TeacherBench(config=config, folder=folder, space=space, data=data, source=source)


@dataclass(frozen=True, kw_only=True)
class TeacherBench:
    """What all fine-tunings of a study have in common; small enough to be sent to another process."""

    config: StudyConfig
    folder: Path
    space: Space
    data: TaskData
    source: str
    """The encoder's folder or hub id."""
    teacher_score: float | None = None
    """There is nothing to compare with."""

    def __getstate__(self) -> dict[str, Any]:
        """Without the texts in pieces: every process cuts its own."""
        return {name: value for name, value in vars(self).items() if name != "prepared"}

    @cached_property
    def prepared(self) -> Prepared:
        """The task for this encoder; cut once a process."""
        task = task_for(self.data)
        loaded = load_for_task(self.source, task, seed=0)
        return prepare(task, loaded.tokenizer, min(self.config.data.max_length, longest(loaded.model.config)))

    @property
    def origin(self) -> str:
        return Path(self.source).name

    @property
    def looks(self) -> int:
        """Evaluations of a trial, the last at its end: so many that halving, at 1, 3, 9, ..., has its rungs."""
        return FACTOR ** (self.config.searching.rungs - 1)

    @property
    def shares(self) -> tuple[float, ...]:
        return tuple(look / self.looks for look in range(1, self.looks + 1))

    @property
    def latency_length(self) -> int:
        return min(self.config.searching.latency_length, self.prepared.max_length)

    def run(self, study: optuna.Study, trial: optuna.Trial, settings: Mapping[str, Value], folder: Path) -> list[float]:
        """Fine-tune with these settings, or go on with it; the best selection metric, higher better."""
        options = finetune_options(self.config.finetuning, settings)
        score = self._score(trial, options, folder)
        trial.set_user_attr(SCORE, score)
        say(f"trial {trial.number}: {self.data.metric} {self.prepared.task.signed(score):.4f}")
        return [score]

    def _score(self, trial: optuna.Trial, options: FinetuneOptions, folder: Path) -> float:
        loop = dataclasses.replace(loop_config(options, self.config.precision, CHECKPOINT_EVERY), patience=None)
        batches = self.prepared.batches("train", options.teacher_batch, 0, tokens=options.teacher_batch_tokens)
        total = loop.total(batches.steps_per_epoch)
        loop = dataclasses.replace(loop, evaluate_every=max(1, total // self.looks))
        watch, training = Watch(trial=trial, total=total, looks=self.looks), folder / "training"
        try:
            if (training / "history.jsonl").is_file():
                # This trial took the place of one whose worker died: what that one saw, the pruner has to see again.
                for row in read_rows(training / "history.jsonl"):
                    watch(row.step, row.values)
            if not (folder / OUTCOME).is_file():
                task, pooling = self.prepared.task, options.teacher_pooling
                model = load_for_task(self.source, task, options.teacher_seed, pooling=pooling).model
                outcome = finetune(model, self.prepared, loop, options, training, listen=watch)
                write_json(folder / OUTCOME, outcome.summary())
        except optuna.TrialPruned:
            Checkpoints.clear(training)
            raise
        Checkpoints.clear(training)
        return max(watch.found.values())


@dataclass(kw_only=True)
class Watch:
    """Tells a trial of every evaluation of its training, and ends it where the pruner says so."""

    trial: optuna.Trial
    total: int
    """Steps of the training."""
    looks: int
    """Evaluations of the training."""
    found: dict[int, float] = field(default_factory=dict)
    """Look, from 1, to the selection metric, higher better."""

    def __call__(self, step: int, values: Mapping[str, float]) -> None:
        if SELECTION not in values:
            return
        reached = min(round(step * self.looks / self.total), self.looks - 1) if step < self.total else self.looks
        # Of fewer steps than looks, one is several looks: none is left out, by whose places the values are known.
        for look in range(len(self.found) + 1, reached + 1):
            self._look(look, values[SELECTION])

    def _look(self, look: int, value: float) -> None:
        self.found[look] = value
        self.trial.set_user_attr(RUNGS, list(self.found.values()))
        self.trial.report(value, look)
        if look < self.looks and self.trial.should_prune():
            give_up(self.trial, f"given up at look {look} of {self.looks}")
