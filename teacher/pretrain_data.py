"""What pretraining learns from: batches of examples of a tokenised corpus, with masks."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from teacher.batches import Batches, sorted_batches
from teacher.examples import Examples, draw_examples, pad_examples
from teacher.masking import SHARE
from teacher.maskings import PIECES, Masks, hide
from teacher.pairs import Pairs
from teacher.pieces import Pieces
from teacher.pretrain_text import MOST_HELD_OUT, PretrainData

_MASKS, _HELD_OUT_MASKS = 1, 2
"""Keep the streams of random numbers apart from each other and from that of the batches."""


def training_batches(
    data: PretrainData,
    examples: Examples,
    *,
    batch_size: int,
    length: int,
    seed: int,
    masks: Masks | None = PIECES,
) -> Batches:
    """What the loop draws from; what is hidden follows from seed and step, so that a resumed run draws the same."""

    def collate_step(indices: Sequence[int], step: int) -> dict[str, Tensor]:
        rng = np.random.default_rng((seed, step, _MASKS))
        return collate(data.learned, examples, indices, data.tokenizer, rng, length, masks=masks, seed=seed)

    return Batches(lengths=examples.lengths, batch_size=batch_size, seed=seed, collate=collate_step)


def held_out_batches(
    data: PretrainData, *, length: int, seed: int, batch_size: int = 64, kind: str = "nsp", masks: Masks | None = PIECES
) -> Iterator[dict[str, Tensor]]:
    """Examples of a kind from held-out documents, always with the same masks."""
    examples = draw_examples(data.held_out, kind, length=length, seed=seed, wanted=1)
    rng = np.random.default_rng((seed, _HELD_OUT_MASKS))
    chosen = rng.permutation(len(examples))[:MOST_HELD_OUT]
    for places in sorted_batches(examples.lengths[chosen], batch_size):
        yield collate(data.held_out, examples, chosen[places], data.tokenizer, rng, length, masks=masks)


def collate(
    pieces: Pieces,
    examples: Examples,
    indices: Sequence[int] | np.ndarray,
    tokenizer: PreTrainedTokenizerFast,
    rng: np.random.Generator,
    length: int,
    *,
    masks: Masks | None = PIECES,
    seed: int = 0,
) -> dict[str, Tensor]:
    """The chosen examples, padded and masked (None: nothing is hidden), as a batch of `teacher.objectives`.

    `seed` is that of static masks; others are drawn from `rng`.
    """
    specials = (tokenizer.pad_token_id, tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id)
    pad, cls, sep, mask = map(int, specials)
    ids, segments, lengths = pad_examples(pieces, examples, indices, cls=cls, sep=sep, pad=pad)
    real = (np.arange(ids.shape[1]) < lengths[:, None]).astype(np.int64)
    arrays = {"input_ids": ids, "attention_mask": real, "token_type_ids": segments}
    if masks is not None:
        masked = hide(
            masks,
            ids,
            (ids != pad) & (ids != cls) & (ids != sep),
            lengths,
            indices,
            rng=rng,
            seed=seed,
            mask=mask,
            vocabulary=len(tokenizer),
            max_predictions=math.ceil(SHARE * length),
        )
        arrays |= {"input_ids": masked.ids, "positions": masked.positions, "labels": masked.labels}
    if isinstance(examples, Pairs):
        arrays["next_labels"] = examples.labels[np.asarray(indices)]
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def unigram_loss(pieces: Pieces) -> float:
    """Entropy of the pieces' frequencies in nats: the MLM loss of a model that knows frequencies and no context."""
    counts = pieces.counts()
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())
