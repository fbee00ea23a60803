"""A vocabulary learned from a sample of a text of any size, or extended with the words of one."""

import heapq
import random
from collections.abc import Iterable, Iterator

from transformers import PreTrainedTokenizerFast

from common.errors import UserError
from common.progress import Progress, say
from teacher.corpus import Corpus
from teacher.sentences import CUTS
from teacher.tokenizer import train_wordpiece, vocabulary_size
from teacher.vocabulary import LEAST, count_pieces, describe_extension, extend_wordpiece

SAMPLE_CHARACTERS = 400
"""Text for each piece that the vocabulary is learned from, drawn from the whole corpus; the time grows with it."""

MOST_SAMPLED = 12_000_000
"""Characters that are held for it."""


def learn_vocabulary(corpus: Corpus, vocabulary: int | None, cased: bool) -> tuple[PreTrainedTokenizerFast, int]:
    """A vocabulary from a sample of the text, and how many documents there are.

    Raises:
        UserError: fewer than four documents, a vocabulary smaller than the alphabet.
    """
    sample, documents, characters = draw_texts(corpus.texts(), MOST_SAMPLED)
    check_documents(documents)
    size = vocabulary_size(characters) if vocabulary is None else vocabulary
    sentences = _sentences(sample, corpus.cut, SAMPLE_CHARACTERS * size)
    tokenizer = train_wordpiece(sentences, vocabulary=size, cased=cased, at_least_letters=vocabulary is None)
    short = "" if vocabulary is None or len(tokenizer) >= size else f" (no more can be, of {size:,} asked for)"
    pieces = f"{len(tokenizer):,} pieces{short}"
    say(f"vocabulary of {pieces} learned from {documents:,} documents, {characters:,} characters")
    return tokenizer, documents


def extend_vocabulary(
    corpus: Corpus, tokenizer: PreTrainedTokenizerFast, words: int
) -> tuple[PreTrainedTokenizerFast, int]:
    """`tokenizer` with up to so many of the words of a sample that it splits most, and how many documents there are.

    Raises:
        UserError: fewer than four documents, a tokenizer that is no WordPiece.
    """
    sample, documents, _ = draw_texts(corpus.texts(), MOST_SAMPLED)
    check_documents(documents)
    sentences = list(_sentences(sample, corpus.cut, MOST_SAMPLED))
    extended = extend_wordpiece(tokenizer, sentences, words)
    before, after = count_pieces(tokenizer, sentences), count_pieces(extended, sentences)
    say(describe_extension(tokenizer, extended, before, after))
    if len(extended) - len(tokenizer) < words:
        say(f"--extend-vocabulary {words:,}: no more words that are split occur {LEAST} times")
    return extended, documents


def draw_texts(texts: Iterable[str], most: int, *, label: str = "read") -> tuple[list[str], int, int]:
    """Documents in random order until they have `most` characters, and the counts of all documents and characters.

    Every document gets a random number, and those with the smallest stay: the start of a random order, in one pass and
    without holding more. The draw does not depend on a seed: runs of every seed share a vocabulary.
    """
    rng = random.Random("vocabulary")
    kept: list[tuple[float, str]] = []
    held = documents = characters = 0
    with Progress(label, total=None, unit="document") as bar:
        for text in texts:
            heapq.heappush(kept, (-rng.random(), text))
            documents, held, characters = documents + 1, held + len(text), characters + len(text)
            while held - len(kept[0][1]) >= most:
                held -= len(heapq.heappop(kept)[1])
            bar.advance()
    return [text for _, text in sorted(kept, reverse=True)], documents, characters


def _sentences(texts: list[str], cut: str, most: int) -> Iterator[str]:
    """Sentences of the first documents, up to `most` characters."""
    characters = 0
    for text in texts:
        sentences = CUTS[cut](text)
        yield from sentences
        characters += sum(map(len, sentences))
        if characters >= most:
            return


def check_documents(count: int) -> None:
    """Raises UserError where there are too few documents to learn from some and hold others out."""
    if count < 4:
        raise UserError(
            f"--corpus: found {count} documents with text, at least 4 are needed (next-sentence pairs take "
            "two to learn from and two held out): give more files, or separate documents by an empty line"
        )
