"""How a text is cut into words that get tags, where no list of words comes with it."""

import re
from collections.abc import Iterable, Sequence

ENTRY = "word_cutting"
"""Of a model's config.json: one of WAYS, where it is not the first."""

WAYS = {
    # Signs of a word's own stay in it (U.N., 3-0); brackets, quotes and a sentence's last sign are words of their own.
    # Chinese characters are words, as BERT's tokenizer has them.
    "words": re.compile(r"[\u3400-\u9fff]|[^\s\u3400-\u9fff\w]|\w(?:[^\s\u3400-\u9fff]*\w)?(?:(?<=\.\w)\.)?"),
    # Runs of letters and digits, and every other sign alone, so that spans of characters may end within "York-based".
    "letters": re.compile(r"\w+|[^\w\s]"),
}


def words_of(text: str, way: str = "words") -> list[tuple[int, int]]:
    """First character of each word, and the one after its last.

    >>> [[text[first:last] for first, last in words_of(text, way)] for text in ["U.N. (3-0)."] for way in WAYS]
    [['U.N.', '(', '3-0', ')', '.'], ['U', '.', 'N', '.', '(', '3', '-', '0', ')', '.']]
    """
    return [match.span() for match in WAYS[way].finditer(text)]


def way_of(cut: Iterable[tuple[str, Sequence[tuple[int, int]]]]) -> str:
    """The way that cuts most of these texts into the words that they have; the first where several do.

    >>> way_of([("a U.N. vote", [(0, 1), (2, 6), (7, 11)])]), way_of([("3-0", [(0, 1), (1, 2), (2, 3)])])
    ('words', 'letters')
    """
    cut = list(cut)
    agreeing = {way: sum(words_of(text, way) == list(words) for text, words in cut) for way in WAYS}
    return max(WAYS, key=lambda way: agreeing[way])
