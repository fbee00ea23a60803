"""How near an answer in words is to the right one, by the rules of SQuAD's scorer."""

import re
import string
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@lru_cache(maxsize=100_000)
def normalised(answer: str) -> str:
    """Lower case, without ASCII punctuation, without English articles, white space as single spaces (Rajpurkar et al.
    2016, arXiv 1606.05250, section 6.1).

    >>> normalised("  The Duke's  (second) son, a knight")
    'dukes second son knight'
    """
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(answer: str, gold: str) -> float:
    """1 where both are the same once normalised."""
    return float(normalised(answer) == normalised(gold))


def word_f1(answer: str, gold: str) -> float:
    """Harmonic mean of precision and recall over words, each counted as often as it occurs.

    Where one of them has no words: 1 if neither has (SQuAD 2.0, arXiv 1806.03822).
    """
    own, right = normalised(answer).split(), normalised(gold).split()
    if not own or not right:
        return float(own == right)
    shared = sum((Counter(own) & Counter(right)).values())
    return 2 * shared / (len(own) + len(right))


def answer_scores(answers: Sequence[str], golds: Sequence[tuple[str, ...]]) -> np.ndarray:
    """(n, 2) exact match and F1, each the best over the right answers; of a question without any, only "" is right.

    Right answers that nothing is left of once they are normalised do not count.
    """
    return np.array([_best(answer, gold) for answer, gold in zip(answers, golds, strict=True)]).reshape(-1, 2)


def _best(answer: str, gold: tuple[str, ...]) -> tuple[float, float]:
    usable = [text for text in gold if normalised(text)] or [""]
    return max(exact_match(answer, text) for text in usable), max(word_f1(answer, text) for text in usable)
