"""Domain masking: pieces that a domain's text has more of than general text are predicted more often."""

import itertools
from collections.abc import Iterable

import numpy as np
from transformers import PreTrainedTokenizerFast

from common.errors import UserError
from teacher.corpus import Corpus
from teacher.pieces import encode_documents
from teacher.sample import draw_texts
from teacher.sentences import CUTS

POWER = 0.5
"""Exponent of the ratio of frequencies: with 1, pieces that general text lacks would leave hardly any other."""

GENERAL_CHARACTERS = 8_000_000
"""Of general text that are counted: about two million pieces."""

_READ = 200_000
"""Documents of general text that are drawn from."""


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


def general_counts(corpus: Corpus, tokenizer: PreTrainedTokenizerFast, name: str) -> np.ndarray:
    """Counts (vocabulary,) of pieces in documents of general text that are drawn at random, the same every time.

    Raises:
        UserError: no text.
    """
    read = itertools.islice(corpus.texts(), _READ)
    texts, _, _ = draw_texts(read, GENERAL_CHARACTERS, label="read general text")
    counts = encode_documents(map(CUTS[corpus.cut], texts), tokenizer).counts(len(tokenizer))
    if not counts.any():
        raise UserError(f"--general-text {name}: no text in it")
    return counts
