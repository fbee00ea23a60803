"""What pretraining learns from: pairs of a tokenised corpus, and batches of them with masks drawn anew each step."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from teacher.batches import Batches, sorted_batches
from teacher.masking import SHARE, mask_pieces
from teacher.pairs import Pairs, draw_pairs, pad_pairs
from teacher.pieces import Pieces
from teacher.pretrain_text import MOST_HELD_OUT, PretrainData

PASSES = 10
"""At most so many times are pairs drawn anew from the same documents (dupe_factor of BERT's released code)."""

_MASKS, _HELD_OUT_MASKS = 1, 2
"""Keep the streams of random numbers apart from each other and from that of the batches."""


def training_pairs(data: PretrainData, *, length: int, seed: int, wanted: int, folder: Path | None = None) -> Pairs:
    """At least `wanted` pairs, drawn in as many passes over the documents as that takes, but no more than PASSES.

    With a `folder` they lie there, instead of in memory.
    """
    once = draw_pairs(data.learned, length=length, seed=seed, folder=folder)
    passes = min(PASSES, math.ceil(wanted / len(once)))
    if passes <= 1:
        return once
    return draw_pairs(data.learned, length=length, seed=seed, passes=passes, folder=folder)


def training_batches(data: PretrainData, pairs: Pairs, *, batch_size: int, length: int, seed: int) -> Batches:
    """What the loop draws from; the masks follow from seed and step, so that a resumed run draws the same."""
    return Batches(
        lengths=pairs.lengths,
        batch_size=batch_size,
        seed=seed,
        collate=lambda indices, step: collate(
            data.learned, pairs, indices, data.tokenizer, np.random.default_rng((seed, step, _MASKS)), length
        ),
    )


def held_out_batches(
    data: PretrainData, *, length: int, seed: int, batch_size: int = 64
) -> Iterator[dict[str, Tensor]]:
    """Pairs of held-out documents, always with the same masks."""
    pairs = draw_pairs(data.held_out, length=length, seed=seed)
    rng = np.random.default_rng((seed, _HELD_OUT_MASKS))
    chosen = rng.permutation(len(pairs))[:MOST_HELD_OUT]
    for places in sorted_batches(pairs.lengths[chosen], batch_size):
        yield collate(data.held_out, pairs, chosen[places], data.tokenizer, rng, length)


def collate(
    pieces: Pieces,
    pairs: Pairs,
    indices: Sequence[int] | np.ndarray,
    tokenizer: PreTrainedTokenizerFast,
    rng: np.random.Generator,
    length: int,
) -> dict[str, Tensor]:
    """The chosen pairs, padded and masked, as a batch of `teacher.objectives.MlmNsp`."""
    specials = (tokenizer.pad_token_id, tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id)
    pad, cls, sep, mask = map(int, specials)
    ids, segments, lengths = pad_pairs(pieces, pairs, indices, cls=cls, sep=sep, pad=pad)
    candidates = (ids != pad) & (ids != cls) & (ids != sep)
    masked = mask_pieces(
        ids, candidates, lengths, rng, mask=mask, vocabulary=len(tokenizer), max_predictions=math.ceil(SHARE * length)
    )
    real = (np.arange(ids.shape[1]) < lengths[:, None]).astype(np.int64)
    arrays = {
        "input_ids": masked.ids,
        "attention_mask": real,
        "token_type_ids": segments,
        "positions": masked.positions,
        "labels": masked.labels,
        "next_labels": pairs.labels[np.asarray(indices)],
    }
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def unigram_loss(pieces: Pieces) -> float:
    """Entropy of the pieces' frequencies in nats: the MLM loss of a model that knows frequencies and no context."""
    counts = pieces.counts()
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())
