"""The teacher's insides for a run: computed before the students where they would be computed more than once."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common.files import write_json
from common.progress import Progress
from distill.cache import Insides, Wanted, write_features
from distill.job import Job
from distill.layers import layer_map, relation_layer
from distill.stages import Stage
from distill.terms import TERMS
from distill.transfer_sets import key_of, weights_digest
from teacher.attention import training_attention
from teacher.ready import Teacher

KEY = "key.json"
FOLDER = Path("teacher") / "insides"
ROOM = Path("teacher") / "room.json"
"""Bytes that a run may take, as it found them first."""
GIGABYTE = 1e9
WORTH = 1.5
"""Passes from which writing and reading cost less than computing anew."""


def storable(stage: Stage) -> bool:
    """Whether the stage looks into the fine-tuned teacher on the labelled rows alone."""
    return stage.teacher == "finetuned" and stage.data == "train" and stage.layered


def looked_at(stage: Stage, students: int, teachers: int) -> Wanted:
    """The teacher layers that a stage's terms compare, for a student of so many layers.

    Terms beside the layer map look at the embeddings, the last hidden state, or the layer of relations.
    """
    terms = [TERMS[name] for name in stage.losses]
    mapped = _mapped(stage, students, teachers)
    hidden = [mapped if term.mapped else frozenset({0, teachers}) for term in terms if term.hidden]
    relations = any(term.attention and not term.mapped for term in terms)
    attention = [mapped if term.mapped else frozenset({relation_layer(teachers)}) for term in terms if term.attention]
    return Wanted(hidden=frozenset().union(*hidden), attention=frozenset().union(*attention), values=relations)


def _mapped(stage: Stage, students: int, teachers: int) -> frozenset[int]:
    """The teacher layers that the stage's layer map may name; none where no term asks it."""
    if not stage.needs("mapped"):
        return frozenset()
    if stage.layers == "nearest":
        return frozenset(range(1, teachers + 1))
    return frozenset(layer_map(stage.layers, students, teachers))


def insides(teacher: Teacher, jobs: Sequence[Job], run: Path, *, gigabytes: float, bf16: bool) -> Insides | None:
    """Write what the jobs' stages look at, or find it written; None where that doesn't pay.

    It pays for what is passed more than once, over epochs, seeds and students; what is passed most often for its size
    comes first, until `gigabytes`, or half of what the disk has left, are full. Finished jobs count too: a resumed run
    has to read the same numbers as one left alone.
    """
    if all(job.finished for job in jobs) or teacher.model.device.type != "cpu" or teacher.prepared.task.several:
        return None
    encoded = teacher.prepared.splits["train"]
    passes = _passes(jobs, teacher.model.config.num_hidden_layers, len(encoded))
    pieces, width = int(encoded.lengths.sum()), int(teacher.model.config.hidden_size)
    room = min(gigabytes * GIGABYTE, _disk_room(run))
    chosen = Wanted()
    for wanted, count in sorted(passes.items(), key=lambda entry: -entry[1] / len(entry[0].files())):
        if count >= WORTH and (chosen | wanted).size(pieces, width, bf16=bf16) <= room:
            chosen = chosen | wanted
    if not chosen.files():
        return None
    _write(teacher, chosen, run / FOLDER, bf16=bf16, gigabytes=chosen.size(pieces, width, bf16=bf16) / GIGABYTE)
    return Insides(folder=run / FOLDER, wanted=chosen)


def _disk_room(run: Path) -> float:
    """Half of what the disk had left when the run first asked: a resumed run has to choose as it did then."""
    _drop_unfinished(run)
    room = _read(run / ROOM)
    if room is None:
        room = shutil.disk_usage(run).free / 2
        write_json(run / ROOM, room)
    return float(room)


def _drop_unfinished(run: Path) -> None:
    """What a kill left of a folder that was being written: nothing else would free these gigabytes."""
    for left in (run / FOLDER).parent.glob(f".{FOLDER.name}.*"):
        shutil.rmtree(left)


def _passes(jobs: Sequence[Job], teachers: int, examples: int) -> dict[Wanted, float]:
    """How often the labelled rows are passed by stages that look at the same."""
    passes: dict[Wanted, float] = {}
    for job in jobs:
        for stage in filter(storable, job.stages):
            wanted = looked_at(stage, job.student.layers, teachers)
            passes[wanted] = passes.get(wanted, 0.0) + stage.length(examples) * stage.batch_size / examples
    return passes


def _write(teacher: Teacher, wanted: Wanted, folder: Path, *, bf16: bool, gigabytes: float) -> None:
    prepared = teacher.prepared
    encoded = prepared.splits["train"]
    key = key_of(
        prepared.task.data.fingerprint, weights_digest(str(teacher.folder)), prepared.max_length, wanted.files(), bf16
    )
    if _read(folder / KEY) == key:
        return
    # The key goes last: without it a folder is not taken for whole.
    shutil.rmtree(folder, ignore_errors=True)
    label = f"teacher: insides ({gigabytes:.1f} GB, once)"
    with training_attention(teacher.model), Progress(label, total=len(encoded), unit="text") as bar:
        write_features(
            teacher.model.eval(),
            encoded,
            lambda indices: prepared.task.collate(encoded, indices, prepared.pad),
            wanted,
            folder,
            bf16=bf16,
            advance=bar.advance,
        )
    write_json(folder / KEY, key)


def _read(path: Path) -> Any:
    """The value in a JSON file; None where there is none that can be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def drop_insides(run: Path) -> None:
    """Gigabytes that a finished run doesn't need."""
    _drop_unfinished(run)
    shutil.rmtree(run / FOLDER, ignore_errors=True)
