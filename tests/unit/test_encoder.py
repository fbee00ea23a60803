"""Looking words up gives the ids that tokenising whole texts gives."""

import random
from pathlib import Path

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE, WordLevel
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel, Whitespace
from transformers import BertTokenizerFast

from teacher import encoder
from teacher.encoder import TextEncoder
from teacher.pieces import encode_documents

ODD = (
    "Café|naïve,|深度学习|a深b|İstanbul|ΣΑΣ|ẞ|e\u0301a|\u0301|[MASK]|a[SEP]b|\u200b|a\u00a0b|a\u2028b|a\tb|\x07|don't|it's."
    "|(list)|##a|1,234.5|\ufffd|😀"
)
"""Words that tokenizers treat in their own ways."""


def _texts(seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    words = [*ODD.split("|"), "x" * 120, "the", "film", "Good", "BAD", "unknownωord", "a", ""]
    return ["", " ", *(" ".join(rng.choices(words, k=rng.randint(1, 12))) for _ in range(400))]


def _plain(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


@pytest.mark.parametrize("cased", [False, True])
def test_equal_to_whole_texts(tiny_tokenizer: BertTokenizerFast, cased: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = BertTokenizerFast(vocab=tiny_tokenizer.get_vocab(), do_lower_case=not cased)
    expected = _plain(tokenizer.backend_tokenizer, _texts())
    words = TextEncoder(tokenizer)
    assert words.encode(_texts()) == expected == words.encode(_texts())
    monkeypatch.setattr(encoder, "MOST_WORDS", 3)
    assert words.encode(_texts()[:9]) == expected[:9]


def test_added_words_with_spaces_and_other_kinds_see_whole_texts(tiny_tokenizer: BertTokenizerFast) -> None:
    other = BertTokenizerFast(vocab=tiny_tokenizer.get_vocab())
    other.add_tokens([AddedToken("the film", normalized=False)])
    texts = ["see the film now", "the film"]
    assert TextEncoder(other).encode(texts) == _plain(other.backend_tokenizer, texts)
    assert len(tiny_tokenizer) in TextEncoder(other).encode(texts)[0]
    words = Tokenizer(WordLevel({"a b": 0, "a": 1, "?": 2}, unk_token="?"))
    assert TextEncoder(words).encode(["a b", "a"]) == [[0], [1]]
    words.pre_tokenizer = Whitespace()
    assert TextEncoder(words).encode(["a b", "a"]) == [[1, 2], [1]]


def test_a_packaged_limit_and_padding_do_not_cut(tmp_path: Path, tiny_tokenizer: BertTokenizerFast) -> None:
    tiny_tokenizer.save_pretrained(tmp_path)
    limited = BertTokenizerFast.from_pretrained(tmp_path).backend_tokenizer
    limited.enable_truncation(4)
    limited.enable_padding(length=9)
    assert [len(ids) for ids in TextEncoder(limited).encode(["the film is good not bad", "goodbadfilms"])] == [6, 9]
    level = Tokenizer(WordLevel({"a": 0}))
    level.pre_tokenizer = BertPreTokenizer()
    level.enable_truncation(1)
    assert TextEncoder(level).encode(["a a a"]) == [[0, 0, 0]]


def test_byte_level_vocabularies_see_a_space_before_a_sentence() -> None:
    tokenizer = Tokenizer(BPE({"Ġ": 0, "a": 1, "Ġa": 2}, [("Ġ", "a")]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    assert encode_documents([["a", "a a"]], tokenizer).ids.tolist() == [2, 2, 2]
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=True)
    assert encode_documents([["a", "a a"]], tokenizer).ids.tolist() == [2, 2, 2]


def test_large_vocabularies_take_wider_numbers() -> None:
    for size, kind in ((2**16, np.uint16), (2**16 + 1, np.int32)):
        tokenizer = Tokenizer(WordLevel({str(number): number for number in range(size)}))
        found = encode_documents([[str(size - 1)]], tokenizer)
        assert found.ids.dtype == kind and found.ids.tolist() == [size - 1]
