"""The folder that all contestants read: SST-2 tokenised once, the teacher, and the student's first weights."""

import json
from collections.abc import Sequence
from pathlib import Path

import contest
import numpy as np

from common.errors import UserError
from common.files import new_folder, write_json
from common.progress import say
from students.build import build_student
from students.presets import StudentConfig, evenly_spaced
from teacher.data import TaskData, load_task
from teacher.sources import load_for_task
from teacher.tasks import task_for
from teacher.tasks.base import Encoded

LENGTH = 128
"""Pieces of a text at most."""
DONE = "work.json"


def prepare_work(folder: Path, data: Path, teacher: Path) -> dict:
    """Fill `folder`, or leave it where it was filled from the same data and teacher; what is in it, as a summary.

    Raises:
        UserError: the folder was filled from something else.
    """
    task = load_task("sst2", data_dir=data)
    key = {"teacher": str(teacher.resolve()), "data": task.fingerprint}
    if (folder / DONE).is_file():
        found = json.loads((folder / DONE).read_text(encoding="utf-8"))
        if {name: found[name] for name in key} != key:
            raise UserError(f"{folder} was filled from another teacher or other data: give another --out")
        return found
    say("tokenise, copy the student's layers, and measure the teacher")
    with new_folder(folder) as target:
        _fill(target, task, teacher)
        dev = contest.Work(target).split("dev")
        reached = {name: contest.accuracy(contest.Work(target).model(name), dev) for name in ("teacher", "student")}
        write_json(target / DONE, {**key, "dev_texts": len(dev.ids), "dev_accuracy_before": reached})
    return json.loads((folder / DONE).read_text(encoding="utf-8"))


def _fill(folder: Path, data: TaskData, teacher: Path) -> None:
    task = task_for(data)
    loaded = load_for_task(str(teacher), task, seed=0)
    for name, split in (("train", "train"), ("dev", "evaluate")):
        _write(folder / f"{name}.npz", task.encode(data.splits[split], loaded.tokenizer, LENGTH))
    shape = loaded.model.config
    student = StudentConfig(
        name="half",
        family="bert",
        layers=3,
        hidden=shape.hidden_size,
        heads=shape.num_attention_heads,
        ffn=shape.intermediate_size,
        teacher_layers=evenly_spaced(shape.num_hidden_layers, 3),
        # At the teacher's own width nothing is cut off: the layers are copied.
        start="prune",
    )
    build_student(student, loaded.model, seed=0).save_pretrained(folder / "student")
    loaded.model.save_pretrained(folder / "teacher")
    loaded.tokenizer.save_pretrained(folder / "teacher")


def _write(path: Path, encoded: Encoded) -> None:
    np.savez(
        path,
        ids=np.concatenate(encoded.input_ids).astype(np.int32),
        starts=_starts(encoded.lengths),
        labels=encoded.labels,
    )


def _starts(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
