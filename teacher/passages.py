"""Text as single sequences of sentences, masked anew each step, for any tokenizer with a mask token."""

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from teacher.batches import Batches, attention_mask, padded, padded_length, sorted_batches
from teacher.masking import SHARE, mask_pieces
from teacher.pieces import Pieces
from teacher.tokenizer import encode_sentences

_MASKS, _HELD_OUT_MASKS = 1, 2
"""Keep the streams of random numbers apart from each other and from that of the batches."""


@dataclass(frozen=True, kw_only=True)
class Specials:
    """What a tokenizer puts around a text, by id."""

    before: np.ndarray
    after: np.ndarray
    pad: int
    mask: int
    never: np.ndarray
    """Special pieces: not chosen for masking, also where a text has one of them. The unknown piece is none of them."""
    vocabulary: int

    @property
    def count(self) -> int:
        return len(self.before) + len(self.after)


def specials_of(tokenizer: PreTrainedTokenizerFast) -> Specials:
    """Found by encoding a text with and without them."""
    (bare,) = encode_sentences(tokenizer, ["a"])
    whole = tokenizer("a")["input_ids"]
    start = next(place for place in range(len(whole)) if whole[place : place + len(bare)] == bare)
    never = sorted(set(tokenizer.all_special_ids) - {tokenizer.unk_token_id})
    return Specials(
        before=np.array(whole[:start], dtype=np.int64),
        after=np.array(whole[start + len(bare) :], dtype=np.int64),
        pad=int(tokenizer.pad_token_id),
        mask=int(tokenizer.mask_token_id),
        never=np.array(never, dtype=np.int64),
        vocabulary=len(tokenizer),
    )


def spaced(documents: Iterable[list[str]], tokenizer: PreTrainedTokenizerFast) -> Iterator[list[str]]:
    """`documents` as they are tokenised sentence by sentence: with a space before each but the first.

    A byte-level tokenizer (RoBERTa) takes the space for a part of the word. For the others it changes nothing.
    """
    matters = encode_sentences(tokenizer, ["a"]) != encode_sentences(tokenizer, [" a"])
    for document in documents:
        yield [document[0], *(f" {sentence}" for sentence in document[1:])] if matters else document


def passages(pieces: Pieces, room: int) -> np.ndarray:
    """Every document cut into passages of at most `room` pieces: (n, 2) start and end in `pieces.ids`.

    As many whole sentences as have room; a sentence that is longer than that is cut. RoBERTa's DOC-SENTENCES (arXiv
    1907.11692, section 4.2).
    """
    starts, documents = pieces.sentences.tolist(), pieces.documents.tolist()
    found = []
    for first, last in itertools.pairwise(documents):
        begin, end = starts[first], starts[last]
        while begin < end:
            # The last sentence start that the room reaches, or a cut where one sentence fills it.
            reached = starts[bisect_right(starts, begin + room, first, last + 1) - 1]
            stop = reached if reached > begin else min(end, begin + room)
            found.append((begin, stop))
            begin = stop
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def passage_batches(
    pieces: Pieces, tokenizer: PreTrainedTokenizerFast, *, batch_size: int, length: int, seed: int
) -> Batches:
    """What the loop draws from; the masks follow from seed and step, so that a resumed run draws the same."""
    specials = specials_of(tokenizer)
    spans = passages(pieces, length - specials.count)
    return Batches(
        lengths=spans[:, 1] - spans[:, 0] + specials.count,
        batch_size=batch_size,
        seed=seed,
        collate=lambda indices, step: collate_passages(
            pieces, spans[np.asarray(indices)], specials, np.random.default_rng((seed, step, _MASKS)), length
        ),
    )


def held_out_passages(
    pieces: Pieces,
    tokenizer: PreTrainedTokenizerFast,
    *,
    length: int,
    seed: int,
    most: int,
    batch_size: int = 64,
) -> Iterator[dict[str, Tensor]]:
    """At most `most` passages of held-out documents, always the same with the same masks."""
    specials = specials_of(tokenizer)
    spans = passages(pieces, length - specials.count)
    rng = np.random.default_rng((seed, _HELD_OUT_MASKS))
    chosen = spans[rng.permutation(len(spans))[:most]]
    for places in sorted_batches(chosen[:, 1] - chosen[:, 0], batch_size):
        yield collate_passages(pieces, chosen[places], specials, rng, length)


def collate_passages(
    pieces: Pieces, spans: np.ndarray, specials: Specials, rng: np.random.Generator, length: int
) -> dict[str, Tensor]:
    """The passages at `spans`, padded on the right and masked, as a batch of `teacher.continued.MaskedPieces`."""
    rows = [np.concatenate([specials.before, pieces.ids[start:end], specials.after]) for start, end in spans.tolist()]
    lengths = np.array([len(row) for row in rows])
    width = padded_length(lengths.tolist(), limit=length)
    ids, real = padded(rows, width, specials.pad), attention_mask(rows, width)
    masked = mask_pieces(
        ids,
        candidates(ids, lengths, specials),
        lengths,
        rng,
        mask=specials.mask,
        vocabulary=specials.vocabulary,
        max_predictions=math.ceil(SHARE * length),
    )
    arrays = {
        "input_ids": masked.ids,
        "attention_mask": real,
        "positions": masked.positions,
        "labels": masked.labels,
    }
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def candidates(ids: np.ndarray, lengths: np.ndarray, specials: Specials) -> np.ndarray:
    """(batch, length) bool: pieces of the text that are no specials."""
    column = np.arange(ids.shape[1])
    inner = (column >= len(specials.before)) & (column < (lengths - len(specials.after))[:, None])
    return inner & ~np.isin(ids, specials.never)
