"""The steps of a chain that change what runs a model: to ONNX, and to 8-bit integers there."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from common.artifact import CardText
from common.families import max_length as positions
from common.progress import say
from common.words import counted
from distill.compress_chain import Artifact
from distill.compress_options import CompressOptions
from distill.onnx_runtime import onnx_tokenizer
from students.export import export_onnx
from students.onnx_folder import read_info
from students.quantize import Quantised, quantise
from students.runtime import OnnxModel
from teacher.prepare import Prepared, prepare_split
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
        exported = export_onnx(
            loaded.model,
            loaded.tokenizer,
            folder / "model",
            max_length=min(self.max_length, positions(loaded.model.config)),
            pairs=any(example.pair is not None for example in self.task.data.splits["train"]),
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
        return quantise(
            source,
            out,
            method=self.options.int8_method,
            embedding_bits=self.options.embedding_bits,
            calibration=[{name: tensor.numpy() for name, tensor in batch.items()} for batch in batches],
            score=_score(prepared),
            max_drop=max_drop,
            before=before,
            card=_card(self.task, "int8 ONNX", "In 8-bit integers for ONNX Runtime."),
            overwrite=True,
        )


def _score(prepared: Prepared) -> Callable[[OnnxModel], float]:
    """The selection metric, higher better."""
    encoded = prepared.splits["select"]

    def score(model: OnnxModel) -> float:
        logits = model.text_logits(encoded.input_ids, encoded.token_types, padding=prepared.pad)
        value = prepared.metrics(logits, "select")[prepared.task.data.metric]
        return value if prepared.task.higher_is_better else -value

    return score


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
