"""A stage's batches where the teacher reads texts with another tokenizer than the student."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from common.errors import UserError
from distill.spans import NONE, OTHER, OWN, TEACHERS, Read, Spans, read, spans_of
from distill.text import cut
from students.retokenised import retokenised
from teacher.batches import attention_mask, padded, padded_length
from teacher.carried import carried
from teacher.data import Example
from teacher.prepare import Prepared


@dataclass(frozen=True, kw_only=True)
class SecondReading:
    """Examples as the teacher reads them, and the spans that they have in common with the student's reading."""

    read: Read
    spans: Spans
    pad: int
    """The teacher's padding."""
    limit: int
    """The longest that the teacher reads, in pieces."""

    def entries(self, indices: Sequence[int], length: int) -> dict[str, Tensor]:
        """For a batch of these examples: what the teacher reads, and the spans; the student's has `length` pieces."""
        rows = [self.read.input_ids[index] for index in indices]
        theirs = padded_length(map(len, rows), limit=self.limit)
        arrays = {
            f"{TEACHERS}input_ids": padded(rows, theirs, self.pad),
            f"{TEACHERS}attention_mask": attention_mask(rows, theirs),
            f"{TEACHERS}token_type_ids": padded([self.read.segments[index] for index in indices], theirs, 0),
            OWN: padded([self.spans.own[index] for index in indices], length, NONE),
            OTHER: padded([self.spans.other[index] for index in indices], theirs, NONE),
        }
        return {name: torch.from_numpy(array) for name, array in arrays.items()}


def second_reading(
    examples: Sequence[Example],
    own: PreTrainedTokenizerBase,
    teacher: PreTrainedTokenizerBase,
    *,
    lengths: np.ndarray,
    limits: tuple[int, int],
    long: str = "truncate",
) -> SecondReading:
    """How `teacher` reads the examples of a stage, beside `own`.

    Args:
        examples: in the order of the stage's indices.
        own: the student's tokenizer.
        teacher: the teacher's.
        lengths: (n,) pieces of each example as the stage has them.
        limits: the longest text in pieces, of the student and of the teacher.
        long: what is kept of longer ones, "truncate" or "head+tail".

    Raises:
        UserError: the stage's rows are not these examples, as where long texts are cut into windows.
    """
    tokenizers = zip((own, teacher), limits, strict=True)
    ours, theirs = (read(examples, tokenizer, limit, long=long) for tokenizer, limit in tokenizers)
    if [len(ids) for ids in ours.input_ids] != lengths.tolist():
        raise UserError(
            "losses on hidden states cannot be had with two tokenizers on this kind of task, whose rows are not whole "
            "examples: leave them out, or take the teacher's own tokenizer"
        )
    return SecondReading(read=theirs, spans=spans_of(ours, theirs), pad=int(teacher.pad_token_id or 0), limit=limits[1])


def chunks(documents: Sequence[str], tokenizer: PreTrainedTokenizerBase, length: int) -> list[Example]:
    """Documents as texts of at most `length` pieces, specials included: a long one gives several."""
    found = []
    for part, encoding in cut(documents, tokenizer, length, offsets=True):
        for row, sample in enumerate(encoding["overflow_to_sample_mapping"]):
            places = [place for place in encoding["offset_mapping"][row] if place[1] > place[0]]
            if places:
                found.append(Example(part[sample][places[0][0] : places[-1][1]], None, 0))
    return found


def source_of_weights(teacher: PreTrainedModel, theirs: PreTrainedTokenizerBase, prepared: Prepared) -> PreTrainedModel:
    """What students take first weights from: the teacher with its table of pieces carried over to their tokenizer's."""
    ours = prepared.tokenizer
    table: Tensor = teacher.get_input_embeddings().weight  # type: ignore[assignment]
    made = carried(table.detach().float().cpu(), theirs, ours)
    return retokenised(teacher, made, pad=prepared.pad, bos=ours.bos_token_id, eos=ours.eos_token_id)
