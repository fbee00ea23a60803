"""How pieces are hidden from a model that has to predict them: the table of masking modes, dynamic or static."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from teacher.domain import domain_weights
from teacher.masking import Masked, frequency_weights, mask_by_weight, mask_pieces
from teacher.word_masking import LONGEST, mask_words
from teacher.word_starts import word_starts

Choose = Callable[..., Masked]
"""A function with the arguments of `teacher.masking.mask_pieces`."""

Counts = Callable[[], np.ndarray]
"""Gives how often each piece of the vocabulary occurs in a text, (vocabulary,)."""


@dataclass(frozen=True, kw_only=True)
class Masks:
    """What is hidden, and whether it is drawn anew each time."""

    choose: Choose = mask_pieces
    static: bool = False
    """The same each time an example is served."""


PIECES = Masks()
"""BERT's choice, drawn anew each time."""

_STATIC = 5
"""Keeps the streams of static masks apart from those of batches and of masks that are drawn anew."""


def _by_frequency(
    ids: np.ndarray,
    candidates: np.ndarray,
    lengths: np.ndarray,
    rng: np.random.Generator,
    *,
    weights: np.ndarray,
    mask: int,
    vocabulary: int,
    max_predictions: int,
) -> Masked:
    """DistilBERT's choice counts over the batch; its limit a sequence is that of the share."""
    return mask_by_weight(ids, weights, int(lengths.sum()), rng, mask=mask, vocabulary=vocabulary)


def _piece(tokenizer: PreTrainedTokenizerBase, own: Counts, general: Counts) -> Choose:
    return mask_pieces


def _whole_word(tokenizer: PreTrainedTokenizerBase, own: Counts, general: Counts) -> Choose:
    return partial(mask_words, starts=word_starts(tokenizer))


def _ngram(tokenizer: PreTrainedTokenizerBase, own: Counts, general: Counts) -> Choose:
    return partial(mask_words, starts=word_starts(tokenizer), longest=LONGEST)


def _frequency(tokenizer: PreTrainedTokenizerBase, own: Counts, general: Counts) -> Choose:
    return partial(_by_frequency, weights=frequency_weights(own(), tokenizer.all_special_ids))


def _domain(tokenizer: PreTrainedTokenizerBase, own: Counts, general: Counts) -> Choose:
    return partial(mask_pieces, weights=domain_weights(own(), general(), tokenizer.all_special_ids))


MASKINGS: dict[str, Callable[[PreTrainedTokenizerBase, Counts, Counts], Choose]] = {
    "piece": _piece,
    "whole-word": _whole_word,
    "ngram": _ngram,
    "frequency": _frequency,
    "domain": _domain,
}
"""Mode to what makes its function from the tokenizer, the text's counts and those of general text."""

OF_WORDS = ("whole-word", "ngram")
"""Modes that take a tokenizer whose pieces tell where words begin."""


def hide(
    masks: Masks,
    ids: np.ndarray,
    candidates: np.ndarray,
    lengths: np.ndarray,
    numbers: Sequence[int] | np.ndarray,
    *,
    rng: np.random.Generator,
    seed: int,
    **options: Any,
) -> Masked:
    """Mask a batch of the examples `numbers`: with draws of `rng`, or of seed and number alone where masks are static.

    `options` are mask, vocabulary and max_predictions. Static masks of an example are the same whatever stands beside
    it: each is chosen as a batch of its own.
    """
    if not masks.static:
        return masks.choose(ids, candidates, lengths, rng, **options)
    hidden, positions, labels = ids.copy(), [], []
    for row, (number, length) in enumerate(zip(numbers, lengths, strict=True)):
        part = np.s_[row : row + 1, :length]
        own = np.random.default_rng((seed, int(number), _STATIC))
        masked = masks.choose(ids[part], candidates[part], lengths[row : row + 1], own, **options)
        hidden[part] = masked.ids
        positions.append(row * ids.shape[1] + masked.positions)
        labels.append(masked.labels)
    return Masked(ids=hidden, positions=np.concatenate(positions), labels=np.concatenate(labels))
