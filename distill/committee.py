"""Several teachers: the answers of each are learned, weighted, each at a temperature of its own."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedTokenizerBase

from common.errors import UserError
from common.families import max_length as longest
from common.progress import say
from teacher.data import Example, TaskData
from teacher.prepare import Prepared, predict_logits, prepare
from teacher.sources import load_for_task, read_config, resolve, same_pieces, tokenizer_in
from teacher.tasks import task_for


@dataclass(frozen=True, kw_only=True)
class Voice:
    """What one teacher's answers count for."""

    weight: float
    """All together 1."""
    temperature: float | None
    """None: the stage's."""


@dataclass(frozen=True, kw_only=True)
class CommitteeOptions:
    """Several teachers."""

    more_teachers: str | None = None
    """Further teachers, fine-tuned on the task: model folders or hub ids, separated by commas. Their answers are
    learned beside --teacher's, which alone is looked into and compared with. A student's folder may be one."""
    teacher_weights: str | None = None
    """What the answers of each count for, --teacher's first, as in 2,1,1; None: all the same."""
    teacher_temperatures: str | None = None
    """Temperature of each teacher's answers, --teacher's first; None: the recipe's."""

    def __post_init__(self) -> None:
        count = 1 + len(self.others)
        if self.teacher_weights is not None and count == 1:
            raise UserError("--teacher-weights is for several teachers: give --more-teachers too, or leave it out")
        for option, numbers in (
            ("--teacher-weights", self.teacher_weights),
            ("--teacher-temperatures", self.teacher_temperatures),
        ):
            if numbers is not None:
                _numbers(option, numbers, count)

    @property
    def others(self) -> tuple[str, ...]:
        """Where the further teachers are."""
        return tuple(name.strip() for name in (self.more_teachers or "").split(",") if name.strip())

    @property
    def voices(self) -> tuple[Voice, ...]:
        """--teacher's first."""
        count = 1 + len(self.others)
        weights = _numbers("", self.teacher_weights, count) if self.teacher_weights else (1.0,) * count
        temperatures: Sequence[float | None] = (None,) * count
        if self.teacher_temperatures:
            temperatures = _numbers("", self.teacher_temperatures, count)
        return tuple(
            Voice(weight=weight / sum(weights), temperature=temperature)
            for weight, temperature in zip(weights, temperatures, strict=True)
        )


def _numbers(option: str, text: str, count: int) -> tuple[float, ...]:
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) != count or not all(0 < number < math.inf for number in numbers):
        raise UserError(
            f"{option} {text}: expected {count} number{'s' if count > 1 else ''} above 0, separated by commas: one for "
            "--teacher and one for each of --more-teachers"
        )
    return numbers


def check_others(sources: Sequence[str], data: TaskData, *, max_length: int, precision: str) -> tuple[str, ...]:
    """How good each further teacher is on the selection split, one sentence each.

    Raises:
        UserError: one that isn't fine-tuned on this task.
    """
    notes = []
    for source in sources:
        task = task_for(data)
        loaded = load_for_task(source, task, seed=0)
        if not loaded.finetuned:
            raise UserError(
                f"--more-teachers {source} has no head for this task: fine-tune it first, with python -m "
                "teacher.finetune, and give OUT/model"
            )
        limit = min(max_length, longest(loaded.model.config))
        value = prepare(task, loaded.tokenizer, limit).score(loaded.model, "select", precision)
        note = f"Also a teacher: {source} ({data.metric} {value:.4f} on the selection split)."
        say(note)
        notes.append(note)
    return tuple(notes)


def other_answers(
    source: str,
    data: TaskData,
    examples: Sequence[Example],
    *,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    precision: str,
) -> np.ndarray:
    """(n, outputs): the logits of a further teacher, by its own tokenizer, its labels in the data's order.

    Where they are one row a piece they stand at the pieces of `tokenizer`, NaN where this teacher has none of its own
    for what stands there.

    Raises:
        UserError: a task whose rows stand for nothing but pieces, and other pieces than those of `tokenizer`.
    """
    task = task_for(data)
    loaded = load_for_task(source, task, seed=0)
    limit = min(max_length, longest(loaded.model.config))
    alike = limit == max_length and same_pieces(loaded.tokenizer, tokenizer)
    elsewhere = task.per_position and not alike
    if elsewhere and not task.carries:
        raise UserError(
            f"--more-teachers {source} has other pieces than --teacher, or reads fewer of them, and {task.kind} are "
            "learned piece by piece: give teachers with the same tokenizer and as many positions"
        )
    if data.long == "windows" and not alike:
        raise UserError(
            f"--more-teachers {source} cuts other windows of a text than --teacher, with other pieces or fewer "
            "positions: give teachers with the same tokenizer and as many positions, or --long head+tail"
        )
    encoded = task.encode(examples, loaded.tokenizer, limit)
    prepared = Prepared(task=task, tokenizer=loaded.tokenizer, splits={"asked": encoded}, max_length=limit)
    label = f"{source}: answers"
    logits = predict_logits(loaded.model, prepared, "asked", precision=precision, label=label, tuned=False)
    return task.carried(logits, encoded, task.encode(examples, tokenizer, max_length)) if elsewhere else logits


def read_otherwise(sources: Sequence[str], tokenizer: PreTrainedTokenizerBase, max_length: int) -> bool:
    """Whether one of these teachers has other pieces than those of `tokenizer`, or reads fewer than `max_length`."""
    places = [resolve(source) for source in sources]
    return any(
        longest(read_config(where)) < max_length or not same_pieces(tokenizer_in(where), tokenizer) for where in places
    )


def known_to_all(logits: np.ndarray) -> np.ndarray:
    """Logits (n, teachers, length, outputs), NaN at every position that one of the teachers says nothing of.

    All then have as many answers in an example, and means over them can be added.
    """
    unknown = np.isnan(logits).any(axis=(1, 3), keepdims=True)
    return np.where(unknown, np.nan, logits).astype(logits.dtype, copy=False)
