"""WordPiece vocabularies: training one on a corpus, with the same result every time."""

import math
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable

from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.trainers import WordPieceTrainer
from transformers import BertTokenizer, PreTrainedTokenizerFast

from common.errors import UserError

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""Ids 0 to 4, in this order."""

COVERAGE = 0.9999
"""Share of the text's characters that the alphabet covers; rarer characters become [UNK]."""

LARGEST = 30_000
"""Pieces of a vocabulary whose size nobody named, of much text: as BERT has."""

POSITIONS = 512
"""Longest input that the tokenizer passes on, in pieces."""


def vocabulary_size(characters: int) -> int:
    """Pieces for a text of so many characters: 1.385 x their square root, in hundreds, at most LARGEST.

    The words of a text grow about with the root of its length (Heaps' law); the factor gives pydocs (33 million) 8,000
    pieces, and LARGEST is reached at 470 million.

    >>> [vocabulary_size(size) for size in (10_000, 1_000_000, 33_400_000, 10**9)]
    [100, 1400, 8000, 30000]
    """
    return min(LARGEST, max(100, 100 * round(1.385 * math.sqrt(characters) / 100)))


def train_wordpiece(
    sentences: Iterable[str],
    *,
    vocabulary: int,
    cased: bool = False,
    positions: int = POSITIONS,
    at_least_letters: bool = False,
) -> PreTrainedTokenizerFast:
    """A BERT tokenizer whose WordPiece vocabulary is learned from `sentences`.

    The vocabulary holds the specials, the alphabet, every letter as a continuation, then merged pieces that occur
    twice or more; a small corpus may yield fewer than `vocabulary` pieces. Equal input gives an equal vocabulary, also
    in another process and with other thread counts. Source: BERT (arXiv 1810.04805), WordPiece (arXiv 1609.08144);
    the merges are those of the `tokenizers` library, by pair frequency.

    >>> tokenizer = train_wordpiece(["low lower lowest", "new newer newest"] * 2, vocabulary=40)
    >>> tokenizer.tokenize("Lowest newer")
    ['lowest', 'newer']
    >>> tokenizer("new", "low").tokens()
    ['[CLS]', 'new', '[SEP]', 'low', '[SEP]']

    With `at_least_letters` a vocabulary is twice its specials and letters where it would be smaller than that.

    Raises:
        UserError: no text, or a vocabulary too small for the specials and the alphabet.
    """
    texts = list(sentences)
    first, following = _alphabet(texts, cased)
    if not first:
        raise UserError("cannot train a WordPiece vocabulary: the corpus has no text")
    needed = len(SPECIALS) + len(first) + len(following)
    vocabulary = max(vocabulary, 2 * needed) if at_least_letters else vocabulary
    if vocabulary < needed:
        raise UserError(
            f"--vocabulary {vocabulary} is smaller than the alphabet: this corpus needs at least {needed} pieces "
            f"({len(first)} characters, {len(following)} of them also inside words, {len(SPECIALS)} specials)"
        )
    pieces = _learn(texts, vocabulary, first, following, cased)
    return BertTokenizer(
        vocab={piece: number for number, piece in enumerate(pieces)},
        do_lower_case=not cased,
        model_max_length=positions,
    )


def _learn(texts: list[str], vocabulary: int, first: list[str], following: list[str], cased: bool) -> list[str]:
    """Pieces in the order of their ids."""
    tokenizer = Tokenizer(WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=not cased)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    # The library numbers single characters in the order of a randomly seeded hash table, and settles equal counts by
    # number, so that two trainings differ. What is passed as a special is numbered first, in the order given.
    trainer = WordPieceTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        show_progress=False,
        initial_alphabet=first,
        limit_alphabet=len(first),
        special_tokens=[*SPECIALS, *first, *(f"##{letter}" for letter in following)],
    )
    tokenizer.train_from_iterator(texts, trainer, length=len(texts))
    numbers = tokenizer.get_vocab(with_added_tokens=False)
    return sorted(numbers, key=lambda piece: numbers[piece])


def _alphabet(texts: list[str], cased: bool, block: int = 4096) -> tuple[list[str], list[str]]:
    """Characters that cover COVERAGE of the text, and those of them that occur inside words; each sorted."""
    normalizer = BertNormalizer(lowercase=not cased)
    words: Counter[str] = Counter()
    for start in range(0, len(texts), block):
        text = normalizer.normalize_str("\n".join(texts[start : start + block]))
        alone = {ord(letter): f" {letter} " for letter in set(text) if is_punctuation(letter)}
        words.update(text.translate(alone).split())
    everywhere: Counter[str] = Counter()
    inside: set[str] = set()
    for word, count in words.items():
        inside.update(word[1:])
        for letter in word:
            everywhere[letter] += count
    kept = _frequent(everywhere)
    return sorted(kept), sorted(kept & inside)


def _frequent(counts: Counter[str]) -> set[str]:
    """The most frequent characters that together reach COVERAGE; equal counts by code point."""
    enough, reached, kept = COVERAGE * counts.total(), 0, set()
    for letter, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if reached >= enough:
            break
        kept.add(letter)
        reached += count
    return kept


def is_punctuation(letter: str) -> bool:
    """Whether BERT's pre-tokenizer makes a word of its own of the character: ASCII symbols and Unicode's class P."""
    return letter in string.punctuation or unicodedata.category(letter).startswith("P")
