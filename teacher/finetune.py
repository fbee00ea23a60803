"""Fine-tune an encoder on a task: `python -m teacher.finetune --task sst2 --model minilm --out DIR`."""

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn
from transformers import PreTrainedModel

from common.artifact import CardText, save
from common.command import run_command
from common.errors import UserError
from common.families import max_length as longest
from common.files import sole_use, write_json, write_text
from common.keys import short_key
from common.progress import say
from teacher.attention import training_attention
from teacher.checkpoint import Checkpoints
from teacher.class_weights import class_weights, weighted_loss
from teacher.cross_validation import cross_validated
from teacher.data import TaskData, describe
from teacher.difference import majority
from teacher.freezing import Unfreezing
from teacher.head import standardised_head
from teacher.history import Listen, read_rows
from teacher.loop import Outcome, train
from teacher.loop_config import LoopConfig, resolve_precision
from teacher.objective import Objective
from teacher.options import FinetuneOptions, TaskOptions
from teacher.practice import check_practice, loop_config, practised, rates, unfreezing
from teacher.prepare import Prepared, model_inputs, output_logits, predict_logits, prepare, settings_of, tune
from teacher.ranks import from_main, ranks
from teacher.rows import only_rows
from teacher.scratch import encoder_for
from teacher.scratch_options import ScratchOptions
from teacher.sources import Loaded, load_for_task, resolve
from teacher.tasks import task_for
from teacher.tasks.base import Task

DONE = "teacher.json"
CLAIM = "settings.key"
EXAMPLES = """
  python -m teacher.finetune --task pydocs --model minilm --out runs/teacher
  python -m teacher.finetune --task reviews.csv --label-column stars --model DIR --out runs/reviews
"""


class Supervised(Objective):
    """A model and the task's own loss.

    Args:
        model: what learns.
        task: what it learns.
        rates: parameters to their share of the learning rate; the others have all of it.
        unfreezing: which parameters learn when; None: all, from the start.
        class_weights: what an example counts, by its label (see teacher.class_weights); None: all the same.
        entries: (n,) what the loss is a mean over of each training example; None: one each.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        task: Task,
        *,
        rates: Mapping[nn.Parameter, float] | None = None,
        unfreezing: Unfreezing | None = None,
        class_weights: Tensor | None = None,
        entries: np.ndarray | None = None,
    ) -> None:
        super().__init__()
        self.model, self.task, self.weights = model, task, {"hard": 1.0}
        self._rates, self._unfreezing, self._entries = rates or {}, unfreezing, entries
        self.class_weights: Tensor | None
        self.register_buffer("class_weights", class_weights, persistent=False)

    def shares(self, part: np.ndarray, batch: np.ndarray) -> dict[str, float]:
        if self._entries is None:
            return {}
        return {"hard": int(self._entries[part].sum()) / max(1, int(self._entries[batch].sum()))}

    def rate_shares(self) -> Mapping[nn.Parameter, float]:
        return self._rates

    def at(self, step: int, total: int) -> None:
        if self._unfreezing is not None:
            self._unfreezing.at(step, total)

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        logits = output_logits(self.model(**model_inputs(self.model, batch)), batch).float()
        if self.class_weights is None:
            return {"hard": self.task.loss(logits, batch["labels"])}
        return {"hard": weighted_loss(logits, batch["labels"], self.class_weights)}


def finetune(
    model: PreTrainedModel,
    prepared: Prepared,
    config: LoopConfig,
    options: FinetuneOptions,
    folder: Path,
    *,
    listen: Listen | None = None,
) -> Outcome:
    """Train `model` in place on the split "train", keeping the weights that do best on "select".

    Where there is no "select" the last weights are kept. `listen` is told every row of the history; what it raises ends
    the training.
    """
    batches = prepared.batches("train", options.teacher_batch, config.seed, tokens=options.teacher_batch_tokens)
    precision = resolve_precision(config.precision)
    selects = "select" in prepared.splits
    ids = prepared.occurring("train", *(["select"] if selects else []))
    with contextlib.ExitStack() as stack:
        for change in (training_attention(model), only_rows(model, ids), standardised_head(model, prepared.task)):
            stack.enter_context(change)
        stack.enter_context(practised(model, options))
        objective = Supervised(
            model,
            prepared.task,
            rates=rates(model, options),
            unfreezing=unfreezing(model, options),
            class_weights=class_weights(options.teacher_class_weights, prepared),
            entries=prepared.task.weights(prepared.splits["train"]),
        )
        return train(
            objective,
            batches,
            config,
            folder,
            label="teacher",
            evaluate=(lambda: prepared.score(model, "select", precision)) if selects else None,
            listen=listen,
        )


@dataclass(frozen=True, kw_only=True)
class Teacher:
    """A model that knows the task, and where it lives."""

    model: PreTrainedModel
    prepared: Prepared
    folder: Path
    """Its model folder."""
    origin: str
    """Where its weights came from, in words."""
    outcome: Outcome | None
    """Of its fine-tuning here; None for one that came fine-tuned."""


def ready_teacher(
    source: str,
    task: Task,
    options: FinetuneOptions,
    folder: Path,
    *,
    max_length: int,
    precision: str,
    checkpoint_every: int = 200,
) -> Teacher:
    """The teacher for `task` made from `source`, in `folder`: as it is if fine-tuned, reused if done, else trained.

    An interrupted fine-tuning in `folder` is gone on with.
    """
    check_practice(options, task)
    where = resolve(source)
    key = teacher_key(where, task, options, max_length, precision)
    done = _finished(folder, key)
    loaded = load_for_task(
        str(folder / "model") if done else source, task, options.teacher_seed, pooling=options.teacher_pooling
    )
    prepared = prepare(task, loaded.tokenizer, min(max_length, longest(loaded.model.config)))
    for line in prepared.truncations():
        say(f"  note: {line}")
    if done is not None:
        say(f"teacher: reusing {folder} (fine-tuned in {done['outcome']['seconds']:.0f} s)")
        outcome = Outcome(**done["outcome"], history=read_rows(folder / "training" / "history.jsonl"))
        return Teacher(
            model=loaded.model, prepared=prepared, folder=folder / "model", origin=done["origin"], outcome=outcome
        )
    if loaded.finetuned:
        for line in options.useless(f"{source} is fine-tuned on such a task, and taken as it is"):
            say(f"  note: {line}")
        if not settings_of(loaded.model, task):
            tune(loaded.model, prepared)
        return Teacher(
            model=loaded.model,
            prepared=prepared,
            folder=Path(where),
            origin=f"{Path(source).name}, fine-tuned before",
            outcome=None,
        )
    config = loop_config(options, precision, checkpoint_every)
    return _train_teacher(loaded, prepared, config, options, folder, source=source, key=key)


def _train_teacher(
    loaded: Loaded,
    prepared: Prepared,
    config: LoopConfig,
    options: FinetuneOptions,
    folder: Path,
    *,
    source: str,
    key: str,
) -> Teacher:
    origin = f"{Path(source).name}, fine-tuned on {prepared.task.data.name}"
    from_main(lambda: claim(folder, key))
    with contextlib.ExitStack() as stack:
        from_main(lambda: stack.enter_context(sole_use(folder)))
        return _train_and_save(loaded, prepared, config, options, folder, origin=origin, key=key)


def _train_and_save(
    loaded: Loaded,
    prepared: Prepared,
    config: LoopConfig,
    options: FinetuneOptions,
    folder: Path,
    *,
    origin: str,
    key: str,
) -> Teacher:
    outcome = finetune(loaded.model, prepared, config, options, folder / "training")
    tune(loaded.model, prepared)
    teacher = Teacher(model=loaded.model, prepared=prepared, folder=folder / "model", origin=origin, outcome=outcome)
    if not ranks().is_main_process:
        return teacher
    save(
        loaded.model,
        loaded.tokenizer,
        folder / "model",
        replace=True,
        max_length=prepared.max_length,
        pairs=prepared.task.pairs,
        card=CardText(
            title=f"{prepared.task.data.name} teacher", description=f"Made from {origin}.", task=prepared.task.data.name
        ),
    )
    Checkpoints.clear(folder / "training")
    write_json(folder / DONE, {"key": key, "origin": origin, "outcome": outcome.summary()})
    return teacher


def teacher_key(source: str, task: Task, options: FinetuneOptions, max_length: int, precision: str) -> str:
    """Eight hex digits over all that decides a fine-tuned teacher's weights: an equal key means it can be reused."""
    where = resolve(source)
    weights = Path(where) / "model.safetensors"
    identity = hashlib.sha256(weights.read_bytes()).hexdigest() if weights.is_file() else where
    parts: list[Any] = [
        identity,
        task.data.fingerprint,
        options.deciding(),
        max_length,
        resolve_precision(precision),
        *([] if task.data.stride is None else [task.data.stride]),
        *([] if task.data.long == "truncate" else [task.data.long]),
    ]
    return short_key(parts)


def _finished(folder: Path, key: str) -> dict[str, Any] | None:
    """What a finished fine-tuning with the same key left in `folder`."""
    marker = folder / DONE
    if not marker.is_file():
        return None
    value = json.loads(marker.read_text(encoding="utf-8"))
    return value if value["key"] == key else None


def claim(folder: Path, key: str) -> None:
    """Take `folder` for the run with this key: new, empty, or of the same key.

    Raises:
        UserError: it holds something else, which stays as it is.
    """
    marker = folder / CLAIM
    if marker.is_file():
        if marker.read_text(encoding="utf-8").strip() == key:
            return
        raise UserError(f"{folder} holds a run with other settings: choose another --out, or repeat its settings")
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty and holds something else: choose another --out")
    write_text(marker, key + "\n")


@dataclass(frozen=True, kw_only=True)
class FinetuneConfig:
    """Fine-tune an encoder on a task and write a model folder that transformers loads."""

    model: str = "auto"
    """auto (minilm if installed, else scratch), minilm, scratch (pretrained here first), a model folder, or a hub
    id."""
    out: Path
    """Run folder: the model goes to OUT/model. The same command again reuses it, or goes on where it was stopped."""
    data: TaskOptions = field(default_factory=TaskOptions)
    training: FinetuneOptions = field(default_factory=FinetuneOptions)
    scratch: ScratchOptions = field(default_factory=ScratchOptions)
    precision: str = "auto"
    """auto (bf16 where the processor multiplies it natively), fp32 or bf16."""
    folds: int | None = None
    """For small data: so many times, 5 say, fine-tune on all but one part of the rows and evaluate on that part; then
    make the model from all of them. Classes are dealt out evenly, equal texts together. The parts' models and
    folds.json are beside OUT, in OUT-folds."""


def main(config: FinetuneConfig) -> None:
    """The command."""
    config.scratch.refuse_unless_scratch(config.model, "--model")
    resolve_precision(config.precision)
    ranks()
    data = config.data.load()
    for line in describe(data):
        say(line)
    source = encoder_for(
        config.model,
        config.out.parent / "teachers",
        corpus="auto",
        precision=config.precision,
        checkpoint_every=200,
        data=data,
        scratch=config.scratch,
    )

    def fit(task: TaskData, options: FinetuneOptions, folder: Path) -> Teacher:
        return ready_teacher(
            source, task_for(task), options, folder, max_length=config.data.max_length, precision=config.precision
        )

    if config.folds is None:
        teacher = fit(data, config.training, config.out)
    else:
        teacher = cross_validated(data, config.training, config.folds, config.data.data_seed, fit=fit, out=config.out)
    if teacher.outcome is None:
        raise UserError(f"{config.model} is fine-tuned on this task already: use it as it is with --teacher")
    if not ranks().is_main_process:
        return
    metrics = teacher.prepared.metrics(predict_logits(teacher.model, teacher.prepared, "evaluate"), "evaluate")
    references = teacher.prepared.splits["evaluate"].references
    say(
        f"evaluate ({data.origins['evaluate']}, n = {len(references):,}): "
        + ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
    )
    if metrics[data.metric] <= (constant := majority(teacher.prepared.task, references)):
        say(f"warning: no better than always giving the same answer ({constant:.4f}): nothing of the task was learned")
    for name, value in settings_of(teacher.model, teacher.prepared.task).items():
        say(f"{name.replace('_', ' ')}: {value:.3f}, found on the selection split, and kept in the model's config.json")
    say(f"model: {teacher.folder}")


if __name__ == "__main__":
    raise SystemExit(run_command(main, FinetuneConfig, examples=EXAMPLES))
