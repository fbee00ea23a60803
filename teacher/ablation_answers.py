"""What pretrained encoders answer to a task, once they have learned it: each way of learning it is done once and kept.

A folder a way, named by a key over all that decides the answers: what is finished is read again, and what was stopped
goes on. The answers alone are kept, not the fine-tuned weights.
"""

import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import AutoConfig, AutoModel

from common.errors import UserError
from common.files import write_json
from common.progress import say
from teacher.checkpoint import Checkpoints
from teacher.features import BATCH, EPOCHS, RATE, FrozenClassifier, frozen_states, train_on_states
from teacher.last_state import load_left_to_right
from teacher.options import FinetuneOptions
from teacher.practice import loop_config
from teacher.prepare import Prepared, predict_logits, prepare
from teacher.ready import teacher_key
from teacher.sources import Loaded, load_for_task, read_tokenizer
from teacher.supervised import finetune
from teacher.tasks.base import Task

FILE = "answers.json"


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Of one encoder to the evaluation split."""

    predictions: np.ndarray
    """(n,), as the task decodes them."""
    seconds: float
    """Of learning the task; for frozen states with the pass over its texts."""


@dataclass(frozen=True, kw_only=True)
class _States:
    """Of the encoder in `folder`, by split, and how long they took."""

    folder: Path
    prepared: Prepared
    splits: dict[str, np.ndarray]
    seconds: float


class Respondent:
    """Lets encoders learn one task, and keeps what they answer in `folder`."""

    def __init__(self, task: Task, folder: Path, *, max_length: int, precision: str, checkpoint_every: int) -> None:
        self._task, self._folder, self._max_length = task, folder, max_length
        self._precision, self._checkpoint_every = precision, checkpoint_every
        self._states: _States | None = None

    def answers(self, encoder: Path, options: FinetuneOptions, view: str | None) -> Answers:
        """Of the encoder in the folder `encoder`, fine-tuned with `options`, or read by a classifier on a frozen `view`
        of its states.
        """
        folder = self._folder / self._name(encoder, options, view)
        known = _stored(folder)
        if known is not None:
            return known
        say(f"{self._task.data.name}, {'fine-tuning' if view is None else f'frozen states ({view})'}: {encoder.name}")
        learn = self._fine_tuned if view is None else self._frozen
        found = learn(encoder, options, view or "", folder / "training")
        write_json(folder / FILE, {"seconds": found.seconds, "predictions": found.predictions.tolist()})
        Checkpoints.clear(folder / "training")
        return found

    def _name(self, encoder: Path, options: FinetuneOptions, view: str | None) -> str:
        if view is None:
            key = teacher_key(str(encoder), self._task, options, self._max_length, self._precision)
            return f"{encoder.name}-fine-tuned-{self._task.data.name}-{key}"
        # Of the options a classifier on frozen states has the seed alone.
        plain = FinetuneOptions(teacher_seed=options.teacher_seed)
        same = teacher_key(str(encoder), self._task, plain, self._max_length, "fp32")
        key = hashlib.sha256(json.dumps([same, EPOCHS, BATCH, RATE]).encode()).hexdigest()[:8]
        return f"{encoder.name}-{view}-{self._task.data.name}-{key}"

    def _prepared(self, loaded: Loaded) -> Prepared:
        positions = loaded.model.config.max_position_embeddings
        return prepare(self._task, loaded.tokenizer, min(self._max_length, positions))

    def _fine_tuned(self, encoder: Path, options: FinetuneOptions, view: str, training: Path) -> Answers:
        loaded = load_encoder(encoder, self._task, options.teacher_seed)
        prepared = self._prepared(loaded)
        config = loop_config(options, self._precision, self._checkpoint_every)
        outcome = finetune(loaded.model, prepared, config, options, training)
        predictions = prepared.decode(predict_logits(loaded.model, prepared, "evaluate"), "evaluate")
        return Answers(predictions=predictions, seconds=outcome.seconds)

    def _frozen(self, encoder: Path, options: FinetuneOptions, view: str, training: Path) -> Answers:
        states = self._states_of(encoder)
        classifier = FrozenClassifier(self._task, view, states.splits["train"])
        outcome = train_on_states(classifier, states.prepared, states.splits, training, seed=options.teacher_seed)
        logits = classifier.answers(states.splits["evaluate"])
        return Answers(predictions=states.prepared.decode(logits, "evaluate"), seconds=states.seconds + outcome.seconds)

    def _states_of(self, encoder: Path) -> _States:
        """Kept for the next view of the same encoder."""
        if self._states is None or self._states.folder != encoder:
            started = time.monotonic()
            model = AutoModel.from_pretrained(encoder).eval()
            loaded = Loaded(model=model, tokenizer=read_tokenizer(str(encoder), model), finetuned=False)
            prepared = self._prepared(loaded)
            splits = {split: frozen_states(model, prepared, split) for split in ("train", "select", "evaluate")}
            self._states = _States(folder=encoder, prepared=prepared, splits=splits, seconds=time.monotonic() - started)
        return self._states


def load_encoder(folder: Path, task: Task, seed: int) -> Loaded:
    """A pretrained encoder with a new head for `task`, drawn from `seed`; where attention is causal, one that reads the
    last piece.
    """
    if getattr(AutoConfig.from_pretrained(folder), "is_decoder", False):
        return load_left_to_right(folder, task, seed)
    return load_for_task(str(folder), task, seed)


def _stored(folder: Path) -> Answers | None:
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        return Answers(predictions=np.array(value["predictions"]), seconds=float(value["seconds"]))
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}): delete its folder, and give the same command again") from error
