"""The step of a chain that trims the vocabulary to what the task's texts need."""

from dataclasses import dataclass
from pathlib import Path

from common.artifact import CardText, save
from common.families import max_length as longest
from common.progress import say
from distill.compress_chain import Artifact
from students.vocabulary import pieces_per_word, trim_vocabulary
from teacher.sources import load_for_task
from teacher.tasks.base import Task

LOOKED_AT = ("train", "select")
"""Splits whose texts say which pieces stay; what the evaluation split then loses is measured."""


@dataclass(frozen=True, kw_only=True)
class Trimming:
    """Writes a model folder with fewer pieces."""

    task: Task
    max_length: int

    def __call__(self, artifact: Artifact, folder: Path) -> Artifact:
        loaded = load_for_task(str(artifact.folder), self.task, seed=0)
        texts = [text for split in LOOKED_AT for text in self._texts(split)]
        trimmed = trim_vocabulary(loaded.model, loaded.tokenizer, texts)
        before, after = (
            pieces_per_word(tokenizer, self._texts("evaluate")) for tokenizer in (loaded.tokenizer, trimmed.tokenizer)
        )
        notes = (
            f"{trimmed.rows_after:,} of {trimmed.rows_before:,} pieces stay, {trimmed.bytes_saved / 1e6:.1f} MB go",
            f"pieces a word on the evaluation split: {before:.3f}, then {after:.3f}",
        )
        for note in notes:
            say(f"  {note}")
        name = self.task.data.name
        save(
            trimmed.model,
            trimmed.tokenizer,
            folder / "model",
            replace=True,
            max_length=min(self.max_length, longest(loaded.model.config)),
            card=CardText(title=f"{name}: trimmed vocabulary", description=f"{notes[0]}.", task=name),
        )
        return Artifact(folder=folder / "model", notes=notes)

    def _texts(self, split: str) -> list[str]:
        examples = self.task.data.splits[split]
        return [text for example in examples for text in (example.text, example.pair) if text]
