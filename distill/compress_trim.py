"""The step of a chain that trims the vocabulary to what the task's texts need."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from common.artifact import CardText, save
from common.families import max_length as longest
from common.progress import say
from distill.compress_chain import Artifact
from distill.compress_options import CompressOptions
from distill.text import documents_for
from students.vocabulary import pieces_per_word, trim_vocabulary
from teacher.prepare import Prepared, prepare_split, say_reading, tune
from teacher.sources import load_for_task
from teacher.tasks.base import Task

LOOKED_AT = "train"
"""The split whose texts say which pieces stay. The selection split does not: later steps are judged by it, and it has
to lose what texts that are still to come lose."""

GENERAL_DOCUMENTS = 20_000
"""Drawn from --general-text."""


@dataclass(frozen=True, kw_only=True)
class Trimming:
    """Writes a model folder with fewer pieces."""

    task: Task
    options: CompressOptions
    max_length: int

    def __call__(self, artifact: Artifact, folder: Path) -> Artifact:
        loaded = load_for_task(str(artifact.folder), self.task, seed=0)
        trimmed = trim_vocabulary(
            loaded.model,
            loaded.tokenizer,
            self._texts(LOOKED_AT),
            least=self.options.trim_least,
            frequent=self.options.keep_frequent,
            general=self._general(),
        )
        notes = (
            f"{trimmed.rows_after:,} of {trimmed.rows_before:,} pieces stay, {trimmed.bytes_saved / 1e6:.1f} MB go",
            *(self._cut_finer(split, loaded.tokenizer, trimmed.tokenizer) for split in ("select", "evaluate")),
        )
        for note in notes:
            say(f"  {note}")
        length = min(self.max_length, longest(loaded.model.config))
        self._read(trimmed.model, loaded.tokenizer, trimmed.tokenizer, length)
        name = self.task.data.name
        save(
            trimmed.model,
            trimmed.tokenizer,
            folder / "model",
            replace=True,
            max_length=length,
            card=CardText(title=f"{name}: trimmed vocabulary", description=f"{notes[0]}.", task=name),
        )
        return Artifact(folder=folder / "model", notes=notes)

    def _read(
        self, model: PreTrainedModel, before: PreTrainedTokenizerBase, after: PreTrainedTokenizerBase, length: int
    ) -> None:
        """Let the configuration say how outputs are read: as before, unless the selection split is cut finer."""
        say_reading(model, self.task)
        if not self.task.settings:
            return
        own, theirs = (prepare_split(self.task, tokenizer, "select", length) for tokenizer in (after, before))
        if not np.array_equal(own.lengths, theirs.lengths):
            tune(model, Prepared(task=self.task, tokenizer=after, splits={"select": own}, max_length=length))

    def _general(self) -> list[str]:
        """Documents that say which pieces are frequent; none where the vocabulary does."""
        source = self.options.general_text
        if source is None:
            return []
        return documents_for(source, self.task.data, GENERAL_DOCUMENTS, option="--general-text")

    def _cut_finer(self, split: str, before: PreTrainedTokenizerBase, after: PreTrainedTokenizerBase) -> str:
        """What is lost on texts that were not looked at, in words."""
        texts = self._texts(split)
        name = "selection" if split == "select" else "evaluation"
        values = [pieces_per_word(tokenizer, texts) for tokenizer in (before, after)]
        return f"pieces a word on the {name} split: {values[0]:.4f}, then {values[1]:.4f}"

    def _texts(self, split: str) -> list[str]:
        return [text for example in self.task.data.splits[split] for text in self.task.texts(example)]
