"""Where two tokenizers cut the same text alike: the parts of it over which states of two models can be compared.

Offsets of pieces in the text say what each piece is of, whatever vocabulary, case or mark for spaces it has. A span is
the least part of the text that is whole pieces of both; a state of a span is the mean of its pieces' states.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from distill.losses import wide
from teacher.data import Example, text_columns
from teacher.tasks.long_texts import ends

NONE = -1
"""The span of a piece that has none, and the side of a special piece."""

INPUTS = ("input_ids", "token_type_ids")

OWN, OTHER = "spans", "other_spans"
"""Entries of a batch: (b, l) spans of the student's pieces, and of the teacher's."""

TEACHERS = "teacher_"
"""Before the names of those entries of a batch that the teacher reads, where it has a tokenizer of its own."""


@dataclass(frozen=True, kw_only=True)
class Read:
    """Examples as one tokenizer reads them, ragged."""

    input_ids: list[np.ndarray]
    """(n,) pieces with specials."""
    places: list[np.ndarray]
    """(n, 3): side (0 or 1 of a pair, NONE of a special piece), first letter, and the one after the last, no spaces."""
    segments: list[np.ndarray]
    """(n,) segment of each piece."""


@dataclass(frozen=True, kw_only=True)
class Spans:
    """The spans of examples that two tokenizers read, ragged, numbered from 0 in each example."""

    own: list[np.ndarray]
    other: list[np.ndarray]

    @property
    def counts(self) -> np.ndarray:
        """(n,) spans of each example."""
        return np.array([1 + int(row.max(initial=NONE)) for row in self.own], dtype=np.int64)


def read(
    examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_length: int, *, long: str = "truncate"
) -> Read:
    """Tokenise as the tasks do, keeping where in the text every piece stands; `long`: "truncate" or "head+tail"."""
    encoding = tokenizer(
        *text_columns(examples),
        truncation="longest_first" if long == "truncate" else False,
        max_length=max_length,
        return_attention_mask=False,
        return_token_type_ids=True,
        return_offsets_mapping=True,
        return_overflowing_tokens=True,
        stride=0,
        verbose=False,
    )
    samples = encoding["overflow_to_sample_mapping"]
    first = [row for row, sample in enumerate(samples) if row == 0 or samples[row - 1] != sample]
    sides = [encoding.sequence_ids(row) for row in first]
    kept = [_kept(own, max_length) for own in sides]
    ids, segments = (
        [np.asarray(encoding[name][row], dtype=np.int64)[own] for row, own in zip(first, kept, strict=True)]
        for name in INPUTS
    )
    return Read(
        input_ids=ids,
        segments=segments,
        places=[
            _places(sides[row], encoding["offset_mapping"][place], (example.text, example.pair or ""))[kept[row]]
            for row, (place, example) in enumerate(zip(first, examples, strict=True))
        ],
    )


def _kept(sides: Sequence[int | None], max_length: int) -> list[int]:
    """Numbers of the pieces that remain of a text, its specials among them.

    >>> _kept([None, 0, 0, 0, 0, 0, None], 6), _kept([None, 0, None], 6)
    ([0, 1, 3, 4, 5, 6], [0, 1, 2])
    """
    inner = [piece for piece, side in enumerate(sides) if side is not None]
    cut = set(inner).difference(ends(inner, max_length - (len(sides) - len(inner))))
    return [piece for piece in range(len(sides)) if piece not in cut]


def _places(sides: Sequence[int | None], offsets: Sequence[tuple[int, int]], texts: tuple[str, str]) -> np.ndarray:
    found = np.zeros((len(sides), 3), dtype=np.int64)
    for row, side, (start, stop) in zip(found, sides, offsets, strict=True):
        if side is None:
            row[0] = NONE
            continue
        # Some tokenizers count the space before a word among its letters.
        inner = texts[side][start:stop]
        start, stop = start + len(inner) - len(inner.lstrip()), stop - len(inner) + len(inner.rstrip())
        row[:] = side, start, max(start, stop)
    return found


def align(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The span of each piece of two readings of one example, whose places these are; NONE where it has none.

    The first pieces, where both are special ([CLS]), are one span. Other specials have none, nor have pieces of spaces
    alone, nor what one of the two cut off.

    >>> [spans.tolist() for spans in align(
    ...     np.array([[-1, 0, 0], [0, 0, 4], [0, 5, 7]]), np.array([[-1, 0, 0], [0, 0, 1], [0, 1, 4], [0, 5, 7]])
    ... )]
    [[0, 1, 2], [0, 1, 1, 2]]
    """
    spans = (np.full(len(first), NONE), np.full(len(second), NONE))
    count = 0
    if len(first) and len(second) and first[0, 0] == second[0, 0] == NONE:
        spans[0][0] = spans[1][0] = 0
        count = 1
    for group in _touching(first, second):
        covered = [_cover(group, reading) for reading in (0, 1)]
        if covered[0] is not None and covered[0] == covered[1]:
            for _, _, _, reading, piece in group:
                spans[reading][piece] = count
            count += 1
    return spans


_Piece = tuple[int, int, int, int, int]
"""Side, start, stop, reading (0 or 1) and the number of a piece."""


def _touching(first: np.ndarray, second: np.ndarray) -> Iterator[list[_Piece]]:
    """Pieces of both in the order of the text, in the smallest groups that share no letter."""
    pieces: list[_Piece] = sorted(
        (int(side), int(start), int(stop), reading, piece)
        for reading, places in enumerate((first, second))
        for piece, (side, start, stop) in enumerate(places)
        if side != NONE and stop > start
    )
    group: list[_Piece] = []
    side, end = NONE, 0
    for entry in pieces:
        if group and (entry[0] != side or entry[1] >= end):
            yield group
            group, end = [], 0
        group.append(entry)
        side, end = entry[0], max(end, entry[2])
    if group:
        yield group


def _cover(group: Sequence[_Piece], reading: int) -> tuple[int, int] | None:
    """First and last letter of what one reading has of a group."""
    own = [(start, stop) for _, start, stop, which, _ in group if which == reading]
    return (min(start for start, _ in own), max(stop for _, stop in own)) if own else None


def spans_of(own: Read, other: Read) -> Spans:
    """Example by example."""
    pairs = [align(first, second) for first, second in zip(own.places, other.places, strict=True)]
    return Spans(own=[first for first, _ in pairs], other=[second for _, second in pairs])


def paired(student_bld: Tensor, teacher_bld: Tensor, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """States that stand for the same, and (b, n) where they do: of pieces, or of spans if a batch has two readings."""
    if OWN not in batch:
        return student_bld, teacher_bld, batch["attention_mask"].bool()
    own, other = batch[OWN], batch[OTHER]
    count = 1 + max(0, int(own.max()))
    numbers = torch.arange(count, device=own.device)
    valid = numbers[None, :] <= own.amax(dim=1, keepdim=True)
    return _pooled(student_bld, own, numbers), _pooled(teacher_bld, other, numbers), valid


def _pooled(states_bld: Tensor, spans_bl: Tensor, numbers: Tensor) -> Tensor:
    """Mean state of each span, (b, spans, d), fp32 at least."""
    states = wide(states_bld)
    # Sums and not a product of matrices, which autocast would compute in bf16. Pieces without a span go to a last row.
    places = torch.where(spans_bl == NONE, len(numbers), spans_bl)
    shape = (len(states), len(numbers) + 1)
    counts = states.new_zeros(shape).scatter_add(1, places, torch.ones_like(places, dtype=states.dtype))
    sums = states.new_zeros(*shape, states.shape[2]).scatter_add(1, places[:, :, None].expand_as(states), states)
    return (sums / counts.clamp(min=1)[:, :, None])[:, :-1]


def teachers_view(batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The batch as the teacher reads it: as it is, where both read alike."""
    own = {name.removeprefix(TEACHERS): value for name, value in batch.items() if name.startswith(TEACHERS)}
    return {**batch, **own}
