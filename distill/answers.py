"""The teacher's answers to every set of examples: a model's, computed once a run, or those in a file."""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from common.families import max_length as longest
from common.progress import say
from distill.committee import known_to_all, other_answers
from distill.teacher_outputs import TeacherOutputs
from distill.transfer_sets import TransferSet, key_of, read_examples, stored_logits, weights_digest
from teacher.data import Example, TaskData
from teacher.prepare import predict_logits, prepare
from teacher.ready import Teacher
from teacher.sources import load_for_task, resolve
from teacher.tasks import task_for


def teacher_logits(
    teacher: Teacher,
    others: Sequence[str],
    sets: Mapping[str, TransferSet],
    run: Path,
    precision: str,
    outputs: TeacherOutputs | None,
    drawn: Mapping[str, np.ndarray],
) -> dict[str, Path]:
    """Set of examples to the logits on it of the teacher (and the others), computed once a run and kept beside it.

    `drawn`: set to the numbers of the examples, rising, that are ever asked for; the others are NaN. All of other sets.
    """
    keys = {"labeled": teacher.prepared.task.data.fingerprint, **{name: entry.key for name, entry in sets.items()}}
    weights = [weights_digest(resolve(where)) for where in (str(teacher.folder), *others)]
    if outputs is not None:
        weights = [outputs.sha256]
    found = {}
    for name, key in keys.items():
        examples = read_examples(sets[name].folder) if name in sets else teacher.prepared.task.data.splits["train"]
        rows = len(examples) if name in sets else len(teacher.prepared.splits["train"])
        compute = partial(_all_answers, teacher, others, outputs, name=name, precision=precision)
        places = drawn.get(name)
        found[name] = stored_logits(
            run / "teacher" / name,
            rows,
            key=key_of(key, weights, teacher.prepared.max_length, precision, *_long(teacher), *_some(places)),
            compute=partial(compute, examples) if places is None else partial(_answers_at, places, examples, compute),
        )
    return found


def _some(places: np.ndarray | None) -> list[str]:
    """What tells answers to some of the examples from those to others, or to all."""
    return [] if places is None else [hashlib.sha256(places.tobytes()).hexdigest()]


def _answers_at(
    places: np.ndarray, examples: Sequence[Example], compute: Callable[[Sequence[Example]], np.ndarray]
) -> np.ndarray:
    """What `compute` gives, a row each, for the examples at these places; NaN for the others."""
    say(f"teacher: {len(places):,} of {len(examples):,} texts are drawn, and answered")
    own = compute([examples[place] for place in places])
    whole = np.full((len(examples), *own.shape[1:]), np.nan, dtype=own.dtype)
    whole[places] = own
    return whole


def _long(teacher: Teacher) -> list[str | int | None]:
    """How long texts are read, where they aren't simply cut."""
    data = teacher.prepared.task.data
    return [] if data.long == "truncate" else [data.long, data.stride]


def _all_answers(
    teacher: Teacher,
    others: Sequence[str],
    outputs: TeacherOutputs | None,
    examples: Sequence[Example],
    *,
    name: str,
    precision: str,
) -> np.ndarray:
    """(n, outputs); where there are other teachers (n, teachers, outputs)."""
    first = answers(teacher, outputs, examples, name=name, precision=precision)
    if not others:
        return first
    prepared = teacher.prepared
    rest = [
        other_answers(
            other,
            prepared.task.data,
            examples,
            tokenizer=prepared.tokenizer,
            max_length=prepared.max_length,
            precision=precision,
        )
        for other in others
    ]
    stacked = np.stack([first, *rest], axis=1)
    return known_to_all(stacked) if prepared.task.carries else stacked


def answers(
    teacher: Teacher, outputs: TeacherOutputs | None, examples: Sequence[Example], *, name: str, precision: str
) -> np.ndarray:
    """(n, outputs): the teacher's logits, in the precision of training, or what the file of its outputs says."""
    if outputs is not None:
        return outputs.logits(examples)
    prepared = teacher.prepared
    encoded = prepared.task.encode(examples, prepared.tokenizer, prepared.max_length)
    extended = dataclasses.replace(prepared, splits={name: encoded})
    label = f"teacher: answers to {name}"
    return predict_logits(teacher.model, extended, name, precision=precision, label=label, tuned=False)


def stand_in(source: str, data: TaskData, outputs: TeacherOutputs, max_length: int) -> Teacher:
    """The encoder that students start from, in the place of a teacher that is only its outputs; it is not trained."""
    loaded = load_for_task(source, task_for(data), seed=0)
    limit = min(max_length, longest(loaded.model.config))
    return Teacher(
        model=loaded.model,
        prepared=prepare(task_for(data), loaded.tokenizer, limit),
        folder=Path(resolve(source)),
        origin=f"outputs in {outputs.path.name}",
        outcome=None,
    )


def check_outputs(outputs: TeacherOutputs, teacher: Teacher) -> tuple[str, ...]:
    """A note for the report; and how good the outputs are, where they are there for the selection split."""
    task = teacher.prepared.task
    examples = task.data.splits["select"]
    if not outputs.missing(examples):
        value = teacher.prepared.metrics(outputs.logits(examples), "select")[task.data.metric]
        say(f"teacher: {task.data.metric} {value:.4f} on the selection split")
    return (f"The teacher is only its outputs, in {outputs.path}; students start from {teacher.folder.name}.",)
