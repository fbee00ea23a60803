"""The TF-IDF row learns what such a row can: words, neighbouring words, shared words of a pair, Chinese characters."""

import random
import warnings

import numpy as np
import pytest

from common.errors import UserError
from distill import baseline
from distill.baseline import NAMES, tfidf_baseline

WORDS = ["array", "tensor", "graph", "table", "figure", "query", "model", "token", "column", "index"]


def _texts(count: int, seed: int, *, words: int = 6) -> list[list[str]]:
    rng = random.Random(seed)
    return [rng.choices(WORDS, k=words) for _ in range(count)]


def _classes(train: list[str], labels: list[int], evaluate: list[str]) -> np.ndarray:
    return tfidf_baseline(train, None, labels, evaluate, None, kind="classification", seed=0)


def test_classes_by_a_word() -> None:
    train, evaluate = _texts(300, 0), _texts(60, 1)
    labels = [int("graph" in words) for words in train]
    predicted = _classes([" ".join(words) for words in train], labels, [" ".join(words) for words in evaluate])
    assert predicted.dtype.kind == "i"
    assert np.mean(predicted == [int("graph" in words) for words in evaluate]) > 0.95


def test_classes_by_the_order_of_two_words() -> None:
    texts = ["not good but bad", "good but not bad"]
    predicted = _classes(texts * 20, [0, 1] * 20, texts)
    assert predicted.tolist() == [0, 1]


def test_labels_keep_their_indices_where_one_is_missing() -> None:
    assert _classes(["a b", "c d"] * 5, [0, 4] * 5, ["a b", "c d"]).tolist() == [0, 4]


def test_pairs_that_share_words_are_told_from_those_that_do_not() -> None:
    rng = random.Random(0)

    def rows(count: int) -> tuple[list[str], list[str], list[int]]:
        first, second, labels = [], [], []
        for index in range(count):
            half = rng.sample(WORDS, 5)
            other = half if index % 2 else [word for word in WORDS if word not in half]
            first.append(" ".join(half))
            second.append(" ".join(rng.sample(other, 4)))
            labels.append(index % 2)
        return first, second, labels

    train, evaluate = rows(200), rows(50)
    predicted = tfidf_baseline(*train, *evaluate[:2], kind="classification", seed=0)
    assert np.mean(predicted == evaluate[2]) > 0.95


def test_the_sides_of_a_pair_are_not_mixed_up() -> None:
    pairs = [("array", "graph"), ("graph", "array")]
    first, second = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    predicted = tfidf_baseline(first * 20, second * 20, [0, 1] * 20, first, second, kind="classification", seed=0)
    assert predicted.tolist() == [0, 1]


def test_numbers_by_ridge_regression() -> None:
    train, evaluate = _texts(400, 0), _texts(80, 1)
    value = {word: index for index, word in enumerate(WORDS)}

    def scores(rows: list[list[str]]) -> list[float]:
        return [float(np.mean([value[word] for word in set(words)])) for words in rows]

    predicted = tfidf_baseline(
        [" ".join(words) for words in train],
        None,
        scores(train),
        [" ".join(words) for words in evaluate],
        None,
        kind="regression",
        seed=0,
    )
    assert np.corrcoef(predicted, scores(evaluate))[0, 1] > 0.9


def test_texts_without_spaces_are_taken_by_characters() -> None:
    good, bad, filler = "很好喜欢", "太差失望", "这家酒店的房间服务和早餐以及周边环境我们一家人都觉得"
    rng = random.Random(0)

    def text(words: str) -> str:
        body = list(filler + rng.choice([words[:2], words[2:]]))
        return "".join(body)

    train = [text(good if index % 2 else bad) for index in range(40)]
    predicted = _classes(train, [index % 2 for index in range(40)], [filler[:20] + "好", filler[:20] + "差"])
    assert predicted.tolist() == [1, 0]


def test_texts_without_any_word_are_taken_by_characters() -> None:
    assert _classes(["☺ !", "☹ ?"] * 10, [0, 1] * 10, ["☺", "☹"]).tolist() == [0, 1]


def test_same_seed_same_predictions() -> None:
    train = [" ".join(words) for words in _texts(100, 0)]
    labels = [index % 3 for index in range(100)]
    assert np.array_equal(_classes(train, labels, train), _classes(train, labels, train))


def test_a_fit_cut_short_is_said_once_and_warns_no_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(baseline, "_ITERATIONS", 1)
    train = [" ".join(words) for words in _texts(200, 0)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _classes(train, [index % 5 for index in range(200)], train)
    assert capsys.readouterr().out == "TF-IDF row: not fully converged after 1 iterations, used as it is\n"


def test_unknown_kind_is_refused() -> None:
    with pytest.raises(UserError, match="unknown task kind for the TF-IDF row 'tags'"):
        tfidf_baseline(["a"], None, [0], ["a"], None, kind="tags", seed=0)
    assert set(NAMES) == {"classification", "regression", "multilabel"}
