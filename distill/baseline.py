"""The row that every model should beat: TF-IDF features and a linear model, on the processor, in seconds."""

import warnings
from collections.abc import Sequence

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from common.errors import unknown_name
from common.progress import say

NAMES = {
    "classification": "TF-IDF + logistic regression",
    "regression": "TF-IDF + ridge regression",
    "multilabel": "TF-IDF + logistic regression",
}
"""Task kind to the name of the row."""

# On rows of length 1 sklearn's own 1.0 holds the weights back too much: 10 gave 1 to 3 points more on SST-2, banking77
# and ChnSentiCorp. It is the same for every task, so that nothing is chosen on the evaluation split.
_INVERSE_PENALTY = 10.0
_ITERATIONS = 300
_WORD = r"(?u)\b\w+\b"
_LONGEST_MEAN_WORD = 15


def tfidf_baseline(
    train_texts: Sequence[str],
    train_pairs: Sequence[str] | None,
    train_labels: Sequence[float] | np.ndarray,
    evaluate_texts: Sequence[str],
    evaluate_pairs: Sequence[str] | None,
    *,
    kind: str,
    seed: int,
) -> np.ndarray:
    """Predictions for the evaluation texts (n,): class indices, or numbers for regression; (n, labels) of 0 and 1
    for several labels.

    Features are words and pairs of neighbouring words (characters where texts have no spaces, as in Chinese), weighted
    (1 + log count) x idf, each row of length 1. The two sides of a pair have features of their own, beside those that
    both have and three numbers for how much they share.

    Args:
        train_texts: first or only sides.
        train_pairs: second sides, one for each text, or None for a task without; so too `evaluate_pairs`.
        train_labels: class indices, or numbers; (n, labels) of 0 and 1.
        evaluate_texts: first or only sides.
        evaluate_pairs: second sides or None.
        kind: "classification", "regression" or "multilabel".
        seed: of the solver.

    Raises:
        UserError: another kind.
    """
    if kind not in NAMES:
        raise unknown_name("task kind for the TF-IDF row", kind, NAMES)
    sides = [*train_texts, *(train_pairs or ())]
    vectorizer = _vectorizer(sides).fit(sides)
    train, evaluate = (
        _features(vectorizer, texts, pairs)
        for texts, pairs in ((train_texts, train_pairs), (evaluate_texts, evaluate_pairs))
    )
    if kind == "regression":
        ridge = Ridge(solver="sparse_cg", random_state=seed)
        return ridge.fit(train, np.asarray(train_labels, dtype=np.float64)).predict(evaluate)
    classes = np.asarray(train_labels, dtype=np.int64)
    if kind == "multilabel":
        columns = [_one_label(train, column, evaluate, seed) for column in classes.T]
        return np.stack(columns, axis=1)
    return _classifier(train, classes, seed).predict(evaluate)


def _one_label(train: sparse.csr_matrix, labels: np.ndarray, evaluate: sparse.csr_matrix, seed: int) -> np.ndarray:
    """One label against the rest; one that all training rows have, or none, stays as it is."""
    if labels.min() == labels.max():
        return np.full(evaluate.shape[0], labels[0])
    return _classifier(train, labels, seed).predict(evaluate)


def _vectorizer(texts: Sequence[str]) -> TfidfVectorizer:
    """Words, or characters where what stands between spaces is too long for words, or there is no word at all."""
    characters = sum(map(len, texts))
    spaced = sum(len(text.split()) for text in texts)
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), token_pattern=_WORD, sublinear_tf=True, dtype=np.float32)
    tokenize = vectorizer.build_tokenizer()
    if characters > _LONGEST_MEAN_WORD * spaced or not any(tokenize(text) for text in texts):
        vectorizer.set_params(analyzer="char", token_pattern=None)
    return vectorizer


def _features(vectorizer: TfidfVectorizer, texts: Sequence[str], pairs: Sequence[str] | None) -> sparse.csr_matrix:
    """One row an example; for pairs [first, second, first x second, cosine, shared part of either side]."""
    first = vectorizer.transform(texts)
    if pairs is None:
        return first
    second = vectorizer.transform(pairs)
    shared = first.multiply(second).tocsr()
    common = shared.getnnz(axis=1)
    parts = [common / np.maximum(side.getnnz(axis=1), 1) for side in (first, second)]
    numbers = np.column_stack([np.asarray(shared.sum(axis=1)).ravel(), *parts]).astype(np.float32)
    return sparse.hstack([first, second, shared, sparse.csr_matrix(numbers)], format="csr")


def _classifier(features: sparse.csr_matrix, labels: np.ndarray, seed: int) -> LogisticRegression:
    model = LogisticRegression(C=_INVERSE_PENALTY, max_iter=_ITERATIONS, random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(features, labels)
    if any(issubclass(warning.category, ConvergenceWarning) for warning in caught):
        say(f"TF-IDF row: not fully converged after {_ITERATIONS} iterations, used as it is")
    return model
