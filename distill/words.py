"""Where the words of a text are, and of how many pieces a tokenizer makes each."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from tokenizers import Encoding
from transformers import PreTrainedTokenizerBase

from common.blocks import blocks
from common.errors import UserError
from distill.stopwords import STOP_WORDS

CONTINUES = "##"
"""Before a WordPiece that goes on with a word."""


class Word(NamedTuple):
    """One word of a text."""

    start: int
    """text[start:end]"""
    end: int
    place: int
    """Of its first piece in the sequence, specials counted."""
    pieces: int


@dataclass(frozen=True, slots=True)
class WordedText:
    """A text as pieces, and its words."""

    text: str
    ids: np.ndarray
    """int64, specials included, cut at the longest length."""
    words: tuple[Word, ...]
    """Content words: with a letter or a digit, in the vocabulary, no stop words. In order; they never overlap."""


def worded(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, max_length: int) -> list[WordedText]:
    """Every text with its content words as the tokenizer cuts them; what lies beyond `max_length` pieces has none."""
    return [text for part in blocks(texts) for text in _worded(part, tokenizer, max_length)]


def _worded(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, max_length: int) -> list[WordedText]:
    encodings = tokenizer(
        list(texts), truncation=True, max_length=max_length, return_offsets_mapping=True, return_token_type_ids=False
    ).encodings
    if encodings is None:
        raise UserError("augmentation needs a fast tokenizer (tokenizer.json), to know where words begin and end")
    special = frozenset(tokenizer.all_special_ids)
    return [
        WordedText(text, np.asarray(encoding.ids, dtype=np.int64), tuple(_content_words(text, encoding, special)))
        for text, encoding in zip(texts, encodings, strict=True)
    ]


def _content_words(text: str, encoding: Encoding, special: frozenset[int]) -> Iterator[Word]:
    """Runs of pieces of one word. A cut text may have cut its last word too: then its end is not known to be whole."""
    ids, offsets, numbers = encoding.ids, encoding.offsets, encoding.word_ids
    for number, run in itertools.groupby(range(len(ids)), key=numbers.__getitem__):
        if number is None:
            continue
        places = list(run)
        start, end = offsets[places[0]][0], offsets[places[-1]][1]
        if not special.isdisjoint(ids[place] for place in places) or not is_content(text[start:end]):
            continue
        if encoding.overflowing and end < len(text) and text[end].isalnum():
            continue
        yield Word(start, end, places[0], len(places))


def has_letters(text: str) -> bool:
    """Whether a letter or a digit of any script is in it."""
    return any(map(str.isalnum, text))


def is_content(word: str) -> bool:
    """Whether augmentation may replace it.

    >>> [is_content(word) for word in ("film", "The", "7", "...", "Straße")]
    [True, False, True, False, True]
    """
    return has_letters(word) and word.casefold() not in STOP_WORDS


def whole_word_ids(tokenizer: PreTrainedTokenizerBase) -> np.ndarray:
    """The ids of pieces that are words by themselves: no ## pieces, specials, unused places or bare signs; rising."""
    special = set(tokenizer.all_special_ids)
    return np.array(
        sorted(
            number
            for piece, number in tokenizer.get_vocab().items()
            if number not in special and not piece.startswith((CONTINUES, "[unused")) and has_letters(piece)
        ),
        dtype=np.int64,
    )


def has_words(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether its vocabulary is a WordPiece one, in which words differ from parts of words."""
    return any(piece.startswith(CONTINUES) for piece in tokenizer.get_vocab())


def normalised(word: str, tokenizer: PreTrainedTokenizerBase) -> str:
    """The word as the tokenizer's vocabulary spells it: lower case and without accents where that has no others."""
    normalizer = tokenizer.backend_tokenizer.normalizer
    return word if normalizer is None else normalizer.normalize_str(word)
