"""Words of a text, word vectors and their neighbours."""

from pathlib import Path

import numpy as np
import pytest
import torch

from common.errors import UserError
from distill import word_vectors
from distill.word_vectors import WordVectors, first_largest, vectors_from_file, vectors_from_pieces
from distill.words import normalised, whole_word_ids, worded


def _found(text: str, tokenizer, limit: int = 64) -> list[tuple[str, int]]:
    (result,) = worded([text], tokenizer, limit)
    return [(result.text[word.start : word.end], word.pieces) for word in result.words]


def test_words_are_cut_where_the_tokenizer_cuts_them(tiny_tokenizer) -> None:
    text = "The FILM's plot,  naïve-good!\tNot 7 \N{GRINNING FACE} [MASK] film"
    assert _found(text, tiny_tokenizer) == [
        ("FILM", 1), ("plot", 1), ("naïve", 5), ("good", 1), ("7", 1), ("film", 1)
    ]  # fmt: skip
    (result,) = worded([text], tiny_tokenizer, 64)
    for word in result.words:
        pieces = tiny_tokenizer.convert_ids_to_tokens(result.ids[word.place : word.place + word.pieces].tolist())
        piece = "".join(piece.removeprefix("##") for piece in pieces)
        assert piece == normalised(text[word.start : word.end], tiny_tokenizer)


@pytest.mark.parametrize("text", ["", "the of and", "... !!", "\N{GRINNING FACE}\N{HORSE FACE}", "\u4e2d\u6587"])
def test_texts_without_a_word_to_replace(tiny_tokenizer, text: str) -> None:
    assert _found(text, tiny_tokenizer) == []
    assert worded([], tiny_tokenizer, 8) == []


def test_a_word_that_truncation_cuts_is_no_word(tiny_tokenizer) -> None:
    whole = _found("film abcdef plot", tiny_tokenizer)
    assert whole == [("film", 1), ("abcdef", 6), ("plot", 1)]
    assert _found("film abcdef plot", tiny_tokenizer, limit=6) == [("film", 1)]
    assert _found("film abcdef plot", tiny_tokenizer, limit=9) == [("film", 1), ("abcdef", 6)]


def test_whole_words_of_a_vocabulary(tiny_tokenizer) -> None:
    names = tiny_tokenizer.convert_ids_to_tokens(whole_word_ids(tiny_tokenizer).tolist())
    assert {"film", "a", "7"} <= set(names)
    assert not {"##a", "[MASK]", "[UNK]", "!", "-"} & set(names)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_first_largest_takes_the_first_among_equals(count: int) -> None:
    values = torch.tensor([[1.0, 2.0, 2.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0], [5.0, 1.0, 4.0, 2.0, 3.0]])
    expected = [sorted(range(5), key=lambda place: (-float(row[place]), place))[:count] for row in values]
    assert first_largest(values, count).tolist() == expected


def test_neighbours_are_the_largest_cosines_without_the_word_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.randn(40, 6)
    rows[7] = 0
    words = tuple(f"w{index}" for index in range(40))
    vectors = WordVectors(words=words, unit=torch.nn.functional.normalize(rows, dim=1), tokenizer=None)
    found = vectors.neighbours(["w3", "W3", "w7", "unknown"], 5)
    assert set(found) == {"w3", "W3"}
    cosines = {
        words[index]: float(rows[3] @ row / (rows[3].norm() * row.norm().clamp(min=1e-9)))
        for index, row in enumerate(rows)
        if index != 3
    }
    together = vectors.neighbours(words, 5)
    # Two words at a time.
    monkeypatch.setattr(word_vectors, "_CELLS", 80)
    assert vectors.neighbours(words, 5) == together
    assert list(found["w3"]) == sorted(cosines, key=cosines.__getitem__, reverse=True)[:5] == list(found["W3"])


def test_a_words_vector_is_the_mean_of_its_pieces(tiny_tokenizer) -> None:
    table = torch.randn(len(tiny_tokenizer), 8)
    vectors = vectors_from_pieces(table, tiny_tokenizer, ["Zebra", "film", "zebra", "straße", "xyz"])
    assert vectors.words[-2:] == ("zebra", "xyz")
    assert len(vectors.words) == len(whole_word_ids(tiny_tokenizer)) + 2
    ids = tiny_tokenizer("zebra", add_special_tokens=False)["input_ids"]
    assert len(ids) == 5
    mean = table[ids].mean(0)
    assert torch.allclose(vectors.unit[-2], mean / mean.norm(), atol=1e-6)
    assert vectors.neighbours(["ZEBRA"], 3)["ZEBRA"] == vectors.neighbours(["zebra"], 3)["zebra"]


@pytest.mark.parametrize(
    "content",
    [
        "film 1 0\nplot 0.9 0.1\nnew york -1 0\n",
        "3 2\nfilm 1 0\nplot 0.9 0.1\nnew york -1 0\n",
        "film 1 0\nplot 0.9 0.1\n, 1 0\nnew york -1 0\nfilm 0 1\nact 0.",
    ],
)
def test_vector_files_of_glove_and_word2vec(tmp_path: Path, content: str) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text(content, encoding="utf-8")
    vectors = vectors_from_file(path)
    assert vectors.words == ("film", "plot", "new york")
    assert vectors.neighbours(["Film"], 9) == {"Film": ("plot", "new york")}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("film 1 0\nplot 0.9\nact 1 1\n", r"vectors\.txt:2: a word and 2 numbers"),
        ("film 1 0\nplot 0.9 x\nact 1 1\n", r"vectors\.txt:2: a word and 2 numbers"),
        ("film 1 0\nplot nan 1\nact 1 1\n", r"vectors\.txt:2"),
        ("just words\n", "vectors"),
        (", 1 0\n. 0 1\n", "no word vectors"),
    ],
)
def test_a_fault_in_a_vector_file_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        vectors_from_file(path)


def test_real_vectors_cut_short_and_in_windows_1252(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vectors = vectors_from_file(shared_data / "glove" / "glove.6B.50d.txt")
    assert len(vectors.words) > 1000
    assert vectors.unit.shape[1] == 50
    near = vectors.neighbours(["three", "january"], 8)
    assert {"four", "five"} <= set(near["three"])
    assert "february" in near["january"]
    assert np.allclose(vectors.unit.norm(dim=1), 1, atol=1e-5)
