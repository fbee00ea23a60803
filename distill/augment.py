"""TinyBERT's task data augmentation (arXiv 1909.10351, section 3.2, algorithm 1): new texts from the task's own.

For each copy of a text every content word is replaced, with probability 0.4, by one of its candidates: what a masked
language model would put there if the word is one piece, else the nearest word vectors. The candidates of a word are
the same for all copies, as in the released code, so that they are computed once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerBase

from common.progress import progress
from distill.proposals import MaskedModel, propose
from distill.word_vectors import WordVectors
from distill.words import WordedText, worded
from teacher.data import Example
from teacher.splits import same


@dataclass(frozen=True, kw_only=True)
class AugmentSettings:
    """How texts are augmented."""

    copies: int
    """N_a of the paper."""
    candidates: int = 15
    """K of the paper."""
    probability: float = 0.4
    """p_t of the paper: of replacing a word."""
    seed: int = 0
    max_length: int
    """Words beyond so many pieces are left alone: training does not see them."""
    precision: str = "fp32"
    """Of the masked language model, "fp32" or "bf16"."""


@dataclass(frozen=True, kw_only=True)
class Proposers:
    """Where candidates come from."""

    tokenizer: PreTrainedTokenizerBase
    """Says what a word is, and of how many pieces: the masked language model's, where there is one."""
    masked: MaskedModel | None
    """For words of one piece; None: vectors for all words."""
    vectors: Callable[[Sequence[str]], WordVectors]
    """From the words of the texts to vectors among which neighbours are sought."""


class Choice(NamedTuple):
    """A word, text[start:end], and what may stand in its place."""

    start: int
    end: int
    candidates: tuple[str, ...]


class Augmented(NamedTuple):
    """One text of the augmented set."""

    text: str
    pair: str | None
    source: int
    """The training example that it was made from."""


def augmented(
    examples: Sequence[Example],
    settings: AugmentSettings,
    proposers: Proposers,
    *,
    excluded: frozenset[tuple[str, str | None]] = frozenset(),
) -> Iterator[Augmented]:
    """Every example, followed by its new versions; what came before already, or is `excluded`, is left out.

    Texts that differ in white space only are the same here; `excluded` holds them as `teacher.splits.same` gives them.
    A pure function of its arguments: what is drawn for an example depends on the seed and its place alone.
    """
    sides = list(dict.fromkeys(side for example in examples for side in (example.text, example.pair) if side))
    texts = worded(sides, proposers.tokenizer, settings.max_length)
    choices = dict(zip(sides, choices_of(texts, settings, proposers), strict=True))
    seen = set(excluded)
    shown = progress(examples, "augment: copies", total=len(examples), unit="text")
    for source, example in enumerate(shown):
        for text, pair in ((example.text, example.pair), *versions(example, source, choices, settings)):
            if (key := same(text, pair)) not in seen:
                seen.add(key)
                yield Augmented(text, pair, source)


def choices_of(
    texts: Sequence[WordedText], settings: AugmentSettings, proposers: Proposers
) -> list[tuple[Choice, ...]]:
    """For each text its words that have candidates, in order."""
    proposed: list[dict[int, tuple[str, ...]]] = [{} for _ in texts]
    if proposers.masked is not None:
        proposed = propose(proposers.masked, texts, settings.candidates, precision=settings.precision)
    others = dict.fromkeys(
        text.text[word.start : word.end]
        for text, found in zip(texts, proposed, strict=True)
        for word in text.words
        if word.place not in found
    )
    near = proposers.vectors(list(others)).neighbours(others, settings.candidates) if others else {}
    return [tuple(_choices(text, found, near)) for text, found in zip(texts, proposed, strict=True)]


def _choices(
    text: WordedText, proposed: Mapping[int, tuple[str, ...]], near: Mapping[str, tuple[str, ...]]
) -> Iterator[Choice]:
    for word in text.words:
        candidates = proposed.get(word.place) or near.get(text.text[word.start : word.end], ())
        if candidates:
            yield Choice(word.start, word.end, candidates)


def versions(
    example: Example, source: int, choices: Mapping[str, Sequence[Choice]], settings: AugmentSettings
) -> Iterator[tuple[str, str | None]]:
    """The copies of one example. Of a pair the sides are edited in turns, and the other stays as it is."""
    generator = np.random.default_rng((settings.seed, source))
    for copy in range(settings.copies):
        second = example.pair is not None and (source + copy) % 2 == 1
        side = str(example.pair) if second else example.text
        new = edited(side, choices.get(side, ()), settings.probability, generator)
        yield (example.text, new) if second else (new, example.pair)


def edited(text: str, choices: Sequence[Choice], probability: float, generator: np.random.Generator) -> str:
    """`text` with each of the words replaced, with this probability, by any of its candidates; all else as it was."""
    chances, picks = generator.random((2, len(choices)))
    parts, done = [], 0
    for choice, chance, pick in zip(choices, chances, picks, strict=True):
        if chance < probability:
            parts += [text[done : choice.start], choice.candidates[int(pick * len(choice.candidates))]]
            done = choice.end
    return "".join([*parts, text[done:]])
