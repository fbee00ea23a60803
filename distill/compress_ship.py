"""The steps of a chain that change what runs a model: to ONNX, and to 8-bit integers there."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.artifact import CardText
from common.families import max_length as positions
from common.progress import say
from common.words import counted
from distill.compress_chain import Artifact
from distill.compress_options import CompressOptions
from distill.onnx_runtime import binder, onnx_tokenizer
from distill.runtimes import split_logits
from students.export import export_onnx
from students.onnx_folder import read_info
from students.quantize import Quantised, quantise
from students.runtime import OnnxModel
from teacher.prepare import Prepared, prepare_split, say_reading
from teacher.sources import load_for_task
from teacher.tasks.base import Task

CALIBRATION = 8
"""Batches of 32 training texts that static quantisation sees the ranges of activations on."""


@dataclass(frozen=True, kw_only=True)
class Exporting:
    """Writes a model folder as an ONNX folder that runs without torch."""

    task: Task
    max_length: int

    def __call__(self, artifact: Artifact, folder: Path) -> Artifact:
        loaded = load_for_task(str(artifact.folder), self.task, seed=0)
        say_reading(loaded.model, self.task)
        exported = export_onnx(
            loaded.model,
            loaded.tokenizer,
            folder / "model",
            max_length=min(self.max_length, positions(loaded.model.config)),
            pairs=self.task.pairs,
            card=_card(self.task, "ONNX", "Exported for ONNX Runtime."),
            replace=True,
        )
        attentions = sum(count for name, count in exported.info.fused.items() if "Attention" in name)
        notes = (f"{counted(attentions, 'attention')} fused",)
        return Artifact(folder=folder / "model", kind="onnx", notes=notes, source=artifact.folder)


@dataclass(frozen=True, kw_only=True)
class Quantising:
    """Writes an ONNX folder in 8-bit integers; parts that lose too much on the selection split stay as they are."""

    task: Task
    options: CompressOptions
    scored: bool = True
    """Else nothing is looked at, and no part stays."""

    def __call__(self, artifact: Artifact, folder: Path) -> Artifact:
        found = self.quantised(artifact.folder, folder / "model", max_drop=self.options.max_drop)
        notes = notes_of(found, self.options.max_drop)
        for note in notes:
            say(f"  {note}")
        return Artifact(folder=folder / "model", kind="onnx", notes=notes)

    def quantised(self, source: Path, out: Path, *, max_drop: float | None, before: float | None = None) -> Quantised:
        """Write the int8 version of the ONNX folder `source` to `out`; with students.quantize.quantise's arguments."""
        tokenizer = onnx_tokenizer(source)
        longest = read_info(source).max_length
        names = ("train", "select") if self.options.int8_method == "static" else ("select",)
        splits = {name: prepare_split(self.task, tokenizer, name, longest) for name in names}
        prepared = Prepared(task=self.task, tokenizer=tokenizer, splits=splits, max_length=longest)
        batches = prepared.sample(CALIBRATION) if "train" in splits else []
        tuned = bool(self.task.settings)
        return quantise(
            source,
            out,
            method=self.options.int8_method,
            embedding_bits=self.options.embedding_bits,
            calibration=[{name: tensor.numpy() for name, tensor in batch.items()} for batch in batches],
            score=_score(prepared) if self.scored else None,
            max_drop=max_drop if self.scored else None,
            before=before,
            settings=(lambda model: self.task.tune(_logits(model, prepared), splits["select"])) if tuned else None,
            card=_card(self.task, "int8 ONNX", "In 8-bit integers for ONNX Runtime."),
            overwrite=True,
        )


def _score(prepared: Prepared) -> Callable[[OnnxModel], float]:
    """The selection metric, higher better; outputs are read as is best for the model that gave them."""
    task = prepared.task

    def score(model: OnnxModel) -> float:
        logits = _logits(model, prepared)
        if task.settings:
            logits = task.tuned(logits, task.tune(logits, prepared.splits["select"]))
        value = prepared.metrics(logits, "select")[task.data.metric]
        return task.signed(value)

    return score


def _logits(model: OnnxModel, prepared: Prepared) -> np.ndarray:
    """Of the selection split, as they come."""
    return split_logits(binder(model), prepared.task, prepared.splits["select"], pad=prepared.pad)


def notes_of(found: Quantised, max_drop: float) -> tuple[str, ...]:
    """What a reader of the table should know of an int8 folder."""
    notes = [f"{found.weight_bits}-bit weights, {found.embedding_bits}-bit tables"]
    if found.excluded:
        notes.append(f"in fp32, since they lose too much: {', '.join(found.excluded)}")
    lost = found.before is not None and found.after is not None and found.before - found.after > max_drop
    if lost:
        notes.append("the drop on the selection split is larger than --max-drop all the same")
    return tuple(notes)


def _card(task: Task, title: str, description: str) -> CardText:
    return CardText(title=f"{task.data.name}: {title}", description=description, task=task.data.name)
