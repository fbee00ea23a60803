"""The batches that a stage is trained on, from its data and for its losses."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from distill.job import Job, Shared
from distill.mixture import mixed_batches, mixture
from distill.reading import SecondReading, chunks, second_reading
from distill.spans import read
from distill.stages import Stage
from distill.text import MOST_DOCUMENTS, documents_for, pieces, text_batches
from distill.transfer_sets import read_examples
from teacher.batches import Batches
from teacher.data import Example
from teacher.prepare import Prepared


def split_of(name: str) -> str:
    """The split that holds a set of examples."""
    return "train" if name == "labeled" else name


@dataclass(frozen=True, kw_only=True)
class StageBatches:
    """What a stage draws from."""

    batches: Batches
    ids: Tensor
    """The student's pieces that occur in it, rising."""
    second: SecondReading | None = None
    """How the teacher reads the same examples, where its layers are compared and its tokenizer is another."""

    @property
    def lengths(self) -> np.ndarray:
        """(n,) what losses on hidden states are means over: pieces, or spans where there are two readings."""
        return self.batches.lengths if self.second is None else self.second.spans.counts

    def first(self, count: int) -> list[dict[str, Tensor]]:
        """The first examples in `count` batches of 32."""
        rows = range(min(len(self.batches.lengths), 32 * count))
        return [self.batches.collate(rows[start : start + 32], 0) for start in range(0, len(rows), 32)]


def stage_batches(
    stage: Stage, job: Job, prepared: Prepared, teacher: PreTrainedTokenizerBase, shared: Shared
) -> StageBatches:
    """The stage's batches of the sets in `prepared`; `teacher`: its tokenizer, the student's is that of `prepared`."""
    twofold = stage.layered and teacher is not prepared.tokenizer
    if not stage.sets:
        return _on_text(stage, job, prepared, teacher if twofold else None, shared)
    batches = task_batches(stage, prepared, job.seed)
    ids = prepared.occurring(*map(split_of, stage.sets), "select")
    if not twofold:
        return StageBatches(batches=batches, ids=ids)
    examples = [example for name in stage.sets for example in _examples(name, prepared, shared)]
    limits = (prepared.max_length, shared.max_length)
    return _twofold(batches, ids, examples, (prepared.tokenizer, teacher), limits, long=prepared.task.data.long)


def task_batches(stage: Stage, prepared: Prepared, seed: int) -> Batches:
    """The batches of a stage that draws from sets of examples, all of them splits in `prepared`."""
    if stage.data == "train":
        return prepared.batches("train", stage.batch_size, seed, tokens=stage.tokens)
    mixed = mixture({name: prepared.splits[split_of(name)] for name in stage.sets}, stage.mix)
    return mixed_batches(mixed, prepared.task, prepared.pad, batch_size=stage.batch_size, seed=seed)


def _examples(name: str, prepared: Prepared, shared: Shared) -> Sequence[Example]:
    return read_examples(shared.sets[name]) if name in shared.sets else prepared.task.data.splits[split_of(name)]


def _on_text(
    stage: Stage, job: Job, prepared: Prepared, teacher: PreTrainedTokenizerBase | None, shared: Shared
) -> StageBatches:
    """General text; with the `teacher`'s tokenizer texts that both read, else pieces that both have."""
    wanted = stage.steps * stage.batch_size if stage.steps else None
    documents = documents_for(shared.text, shared.data, wanted or MOST_DOCUMENTS)
    texts = chunks(documents, prepared.tokenizer, shared.text_length)[:wanted] if teacher is not None else []
    if teacher is None:
        sequences = pieces(documents, prepared.tokenizer, shared.text_length)[:wanted]
    else:
        sequences = read(texts, prepared.tokenizer, shared.text_length).input_ids
    ids = torch.from_numpy(np.unique(np.concatenate([*sequences, [prepared.pad]])))
    batches = text_batches(sequences, prepared.pad, batch_size=stage.batch_size, seed=job.seed)
    if teacher is None:
        return StageBatches(batches=batches, ids=ids)
    return _twofold(batches, ids, texts, (prepared.tokenizer, teacher), (shared.text_length, shared.max_length))


def _twofold(
    batches: Batches,
    ids: Tensor,
    examples: Sequence[Example],
    tokenizers: tuple[PreTrainedTokenizerBase, PreTrainedTokenizerBase],
    limits: tuple[int, int],
    *,
    long: str = "truncate",
) -> StageBatches:
    """The batches with the teacher's reading of the same examples beside."""
    second = second_reading(examples, *tokenizers, lengths=batches.lengths, limits=limits, long=long)

    def collate(indices: Sequence[int], step: int) -> dict[str, Tensor]:
        batch = batches.collate(indices, step)
        return batch | second.entries(indices, batch["input_ids"].shape[1])

    return StageBatches(batches=dataclasses.replace(batches, collate=collate), ids=ids, second=second)
