"""Documents of numbered pieces for tests of what is drawn from them: a span is known by its numbers."""

import random

import numpy as np

from teacher.pieces import Pieces

Documents = list[list[list[int]]]


def pieces_of(documents: Documents) -> Pieces:
    """Documents of sentences of pieces as flat arrays."""
    sentences = [sentence for document in documents for sentence in document]
    return Pieces(
        ids=np.array([piece for sentence in sentences for piece in sentence], dtype=np.int32),
        sentences=np.cumsum([0, *map(len, sentences)]),
        documents=np.cumsum([0, *map(len, documents)]),
    )


def numbered(rng: random.Random, count: int, most_sentences: int, most_pieces: int) -> Documents:
    """`count` documents of random sizes; every piece of them is another number, rising from 5."""
    number = iter(range(5, 10**8))
    return [
        [[next(number) for _ in range(rng.randint(1, most_pieces))] for _ in range(rng.randint(1, most_sentences))]
        for _ in range(count)
    ]
