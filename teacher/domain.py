"""Domain masking: pieces that a domain's text has more of than general text are predicted more often."""

import itertools
import random
from collections.abc import Iterable

import numpy as np
from transformers import PreTrainedTokenizerFast

from common.errors import UserError
from teacher.pieces import Pieces, encode_documents

POWER = 0.5
"""Exponent of the ratio of frequencies: with 1, pieces that general text lacks would leave hardly any other."""

GENERAL_PIECES = 2_000_000
"""Of general text that are counted."""

_READ = 200_000
"""Documents of general text that are drawn from."""

_DRAWN = 20_000

_BLOCK = 1 << 22


def domain_weights(domain: np.ndarray, general: np.ndarray, specials: Iterable[int]) -> np.ndarray:
    """Weight of each piece from its counts in the domain's text and in general text, (vocabulary,) each.

    weight = sqrt(p_domain / p_general) with p = (count + 1) / (all + vocabulary); specials 0. Only ratios of weights
    matter. The ratio is what selective masking for domains starts from: frequent here, rare elsewhere.

    >>> domain_weights(np.array([0, 7, 1, 0]), np.array([0, 1, 1, 6]), specials=[0]).round(3).tolist()
    [0.0, 2.0, 1.0, 0.378]
    """
    shares = [(counts + 1) / (counts.sum() + len(counts)) for counts in (domain, general)]
    weights = (shares[0] / shares[1]) ** POWER
    weights[list(specials)] = 0.0
    return weights


def piece_counts(pieces: Pieces, vocabulary: int) -> np.ndarray:
    """How often each piece of the vocabulary occurs, (vocabulary,); a block of the text is in memory at a time."""
    counts = np.zeros(vocabulary, dtype=np.int64)
    for start in range(0, len(pieces.ids), _BLOCK):
        counts += np.bincount(pieces.ids[start : start + _BLOCK], minlength=vocabulary)
    return counts


def general_counts(corpus: Iterable[list[str]], tokenizer: PreTrainedTokenizerFast, name: str) -> np.ndarray:
    """Counts of pieces in documents of general text that are drawn at random, the same every time.

    Raises:
        UserError: no text.
    """
    documents = drawn_documents(itertools.islice(corpus, _READ), _DRAWN)
    counts = piece_counts(encode_documents(documents, tokenizer, enough=GENERAL_PIECES), len(tokenizer))
    if not counts.any():
        raise UserError(f"--general-text {name}: no text in it")
    return counts


def drawn_documents(corpus: Iterable[list[str]], limit: int) -> list[list[str]]:
    """`limit` documents, each with equal chance, in random order; no more of them are in memory (algorithm R)."""
    rng = random.Random("general text")
    drawn: list[list[str]] = []
    for number, document in enumerate(corpus):
        if len(drawn) < limit:
            drawn.append(document)
        elif (place := rng.randrange(number + 1)) < limit:
            drawn[place] = document
    rng.shuffle(drawn)
    return drawn
