"""Which piece of a tokenised text a word begins at."""

import numpy as np


def first_pieces(offsets: np.ndarray, special: np.ndarray, words: np.ndarray) -> np.ndarray:
    """For each word the first piece that has a character of it; -1: none.

    offsets (pieces, 2) and words (n, 2): first character and the one after the last, both rising; special (pieces,):
    pieces that stand for no text.

    >>> first_pieces(np.array([[0, 0], [0, 2], [3, 5], [5, 8]]), np.array([True, False, False, False]),
    ...              np.array([[0, 2], [3, 8], [9, 12]])).tolist()
    [1, 2, -1]
    """
    text = np.flatnonzero(~special & (offsets[:, 1] > offsets[:, 0]))
    if len(text) == 0:
        return np.full(len(words), -1)
    starts, ends = offsets[text, 0], offsets[text, 1]
    after = np.searchsorted(ends, words[:, 0], side="right")
    place = np.minimum(after, len(text) - 1)
    return np.where((after < len(text)) & (starts[place] < words[:, 1]), text[place], -1)
