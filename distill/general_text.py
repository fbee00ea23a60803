"""Text for general distillation as batches, as it is or with pieces masked by their frequency."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from common.errors import UserError
from common.progress import Progress, say
from distill.text import first_texts, pieces, text_batches
from teacher.batches import Batches
from teacher.corpus import Corpus
from teacher.masking import frequency_weights, mask_by_weight

_MASKS = 1
"""Keeps the stream of random numbers for masks apart from that of the batches."""

GROUP = 500
"""Documents tokenised at a time."""


def sequences_of(
    corpus: Corpus, tokenizer: PreTrainedTokenizerBase, *, length: int, wanted: int | None
) -> list[np.ndarray]:
    """Documents in random order as sequences of at most `length` pieces, until `wanted` are there (None: all).

    The draw does not depend on a seed: every student reads the same text.

    Raises:
        UserError: no text.
    """
    texts = first_texts(corpus)
    for note in corpus.notes():
        say(note)
    order = np.random.default_rng(0).permutation(len(texts))
    found: list[np.ndarray] = []
    with Progress("tokenise", total=len(texts), unit="document") as bar:
        for start in range(0, len(order), GROUP):
            group = [texts[index] for index in order[start : start + GROUP]]
            # [CLS] and [SEP] alone teach nothing.
            found += [ids for ids in pieces(group, tokenizer, length) if len(ids) > 2]
            bar.advance(len(group), note=f"{len(found):,} sequences")
            if wanted is not None and len(found) >= wanted:
                break
    if not found:
        raise UserError(f"--text {corpus.name}: no text in it")
    return found[:wanted]


def masked_batches(
    sequences: Sequence[np.ndarray], tokenizer: PreTrainedTokenizerBase, *, batch_size: int, seed: int
) -> Batches:
    """The text with pieces masked anew each step, the rare ones more often: DistilBERT's `teacher.masking` weights.

    Adds positions (k,), places of the masked pieces in the flattened batch, and labels (k,) to each batch. The masks
    follow from seed and step, so that a resumed run draws the same.
    """
    counts = np.bincount(np.concatenate(list(sequences)), minlength=len(tokenizer))
    weights = frequency_weights(counts, tokenizer.all_special_ids)
    plain = text_batches(sequences, int(tokenizer.pad_token_id), batch_size=batch_size, seed=seed)
    mask = int(tokenizer.mask_token_id)

    def collate(indices: Sequence[int], step: int) -> dict[str, Tensor]:
        batch = plain.collate(indices, step)
        masked = mask_by_weight(
            batch["input_ids"].numpy(),
            weights,
            int(batch["attention_mask"].sum()),
            np.random.default_rng((seed, step, _MASKS)),
            mask=mask,
            vocabulary=len(tokenizer),
        )
        arrays = {"input_ids": masked.ids, "positions": masked.positions, "labels": masked.labels}
        return batch | {name: torch.from_numpy(array) for name, array in arrays.items()}

    return dataclasses.replace(plain, collate=collate)
