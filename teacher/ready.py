"""A teacher for a task: as it is where it came fine-tuned, reused where it was made before, else trained."""

import contextlib
import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from common.artifact import CONFIG, CardText, save
from common.errors import UserError
from common.families import max_length as longest
from common.files import read_object, sole_use, write_json, write_text
from common.keys import short_key
from common.progress import say
from teacher.checkpoint import Checkpoints
from teacher.history import read_rows
from teacher.loop import Outcome
from teacher.loop_config import LoopConfig, resolve_precision
from teacher.options import FinetuneOptions
from teacher.practice import check_practice, loop_config
from teacher.prepare import Prepared, prepare, settings_of, tune
from teacher.ranks import from_main, ranks
from teacher.sources import Loaded, load_for_task, resolve, weights_identity
from teacher.supervised import finetune
from teacher.tasks.base import Task

DONE = "teacher.json"
CLAIM = "settings.key"


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


def owned(teacher: Teacher, folder: Path, key: str) -> Teacher:
    """A teacher that came fine-tuned, where all that it needs lies in a folder: its own, or else a copy in `folder`.

    A hub id is no folder, pickled weights cannot be measured, and a threshold that was found here belongs to the model.
    """
    task, config = teacher.prepared.task, teacher.folder / CONFIG
    written = read_object(config, advice="save the model again") if config.is_file() else {}
    if any(teacher.folder.glob("*.safetensors")) and all(name in written for name in task.settings):
        return teacher
    commit = getattr(teacher.model.config, "_commit_hash", None)
    folder = folder.with_name(f"{folder.name}-{commit[:8]}") if commit else folder
    claim(folder, key)
    with sole_use(folder, wait=True):
        if not (folder / "model").is_dir():
            _save(teacher.model, teacher.prepared, folder, origin=teacher.origin)
    return dataclasses.replace(teacher, folder=folder / "model")


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
    _save(loaded.model, prepared, folder, origin=origin)
    Checkpoints.clear(folder / "training")
    write_json(folder / DONE, {"key": key, "origin": origin, "outcome": outcome.summary()})
    return teacher


def _save(model: PreTrainedModel, prepared: Prepared, folder: Path, *, origin: str) -> None:
    name = prepared.task.data.name
    save(
        model,
        prepared.tokenizer,
        folder / "model",
        replace=True,
        max_length=prepared.max_length,
        pairs=prepared.task.pairs,
        card=CardText(title=f"{name} teacher", description=f"Made from {origin}.", task=name),
    )


def teacher_key(source: str, task: Task, options: FinetuneOptions, max_length: int, precision: str) -> str:
    """Eight hex digits over all that decides a fine-tuned teacher's weights: an equal key means it can be reused."""
    where = resolve(source)
    weights = Path(where) / "model.safetensors"
    identity = hashlib.sha256(weights.read_bytes()).hexdigest() if weights.is_file() else weights_identity(source)
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
