"""WordPiece training: the same every time, and transformers' own BERT tokenizer in every other respect."""

import random
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer, BertTokenizerFast, PreTrainedTokenizerFast

from common.errors import UserError
from teacher.pieces import Pieces, encode_documents
from teacher.tokenizer import SPECIALS, train_wordpiece, vocabulary_size

TEXTS = [
    "Café déjà-vu, naïve façade!",
    "tensor.shape[0] -> (batch, length); see `torch.nn`",
    "深度学习 models 模型",
    "İstanbul ÜBER straße",
    "tabs\tand\u00a0spaces\u200b and \x07 control",
    "unhappiness supercalifragilistic 12345 $5+$6",
    "",
]


def _sentences(seed: int = 0) -> list[str]:
    """Made-up words whose frequencies tie all the time."""
    rng = random.Random(seed)
    syllables = ["ka", "lo", "mi", "nu", "ter", "ing", "un", "ed", "Ré", "soo"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(300)]
    return [*(" ".join(rng.choices(words, k=8)) for _ in range(400)), *TEXTS * 2]


@pytest.fixture(scope="module")
def trained() -> PreTrainedTokenizerFast:
    return train_wordpiece(_sentences(), vocabulary=300)


def test_specials_come_first_and_the_size_is_kept(trained: PreTrainedTokenizerFast) -> None:
    assert trained.convert_ids_to_tokens(list(range(5))) == list(SPECIALS)
    assert len(trained) == 300
    assert (trained.pad_token_id, trained.unk_token_id, trained.cls_token_id) == (0, 1, 2)
    assert (trained.sep_token_id, trained.mask_token_id) == (3, 4)


def test_the_vocabulary_is_the_same_every_time(trained: PreTrainedTokenizerFast) -> None:
    for _ in range(4):
        assert train_wordpiece(_sentences(), vocabulary=300).get_vocab() == trained.get_vocab()


@pytest.mark.parametrize("cased", [False, True])
def test_equal_to_the_bert_tokenizer_of_the_same_vocabulary(tmp_path: Path, cased: bool) -> None:
    tokenizer = train_wordpiece(_sentences(), vocabulary=300, cased=cased)
    pieces = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    theirs = BertTokenizerFast(vocab=str(tmp_path / "vocab.txt"), do_lower_case=not cased)
    for first, second in zip(TEXTS, reversed(TEXTS), strict=True):
        assert dict(tokenizer(first)) == dict(theirs(first))
        assert dict(tokenizer(first, second)) == dict(theirs(first, second))
    assert tokenizer.decode(tokenizer("kalo minu").input_ids) == theirs.decode(theirs("kalo minu").input_ids)


def test_auto_tokenizer_loads_the_saved_folder(tmp_path: Path, trained: PreTrainedTokenizerFast) -> None:
    trained.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.get_vocab() == trained.get_vocab()
    assert loaded.model_max_length == 512
    for text in TEXTS:
        assert loaded(text, "second Ré").input_ids == trained(text, "second Ré").input_ids


def test_known_letters_give_no_unknown_piece(trained: PreTrainedTokenizerFast) -> None:
    assert "[UNK]" not in trained.tokenize("kalominuter mimimi uned, (lo)")
    assert trained.tokenize("ωmega") == ["[UNK]"]


def test_cased_keeps_capitals_and_accents() -> None:
    assert "R" in train_wordpiece(_sentences(), vocabulary=300, cased=True).tokenize("R")
    assert train_wordpiece(_sentences(), vocabulary=300).tokenize("R É") == ["r", "e"]


def test_too_small_a_vocabulary_and_no_text_are_refused() -> None:
    with pytest.raises(UserError, match=r"--vocabulary 20 is smaller than the alphabet: .* needs at least \d+ pieces"):
        train_wordpiece(_sentences(), vocabulary=20)
    with pytest.raises(UserError, match="no text"):
        train_wordpiece(["", " \n"], vocabulary=100)


def test_documents_become_flat_pieces(tmp_path: Path) -> None:
    tokenizer = train_wordpiece(["a b c"] * 2, vocabulary=8)
    pieces = encode_documents([["a b", "", "c"], [""], ["b"]], tokenizer)
    assert pieces.ids.tolist() == [5, 6, 7, 6] and pieces.ids.dtype == np.uint16
    assert pieces.sentences.tolist() == [0, 2, 3, 4]
    assert pieces.documents.tolist() == [0, 2, 3]
    pieces.save(tmp_path / "pieces")
    loaded = Pieces.load(tmp_path / "pieces")
    assert isinstance(loaded.ids, np.memmap) and loaded.ids.dtype == np.uint16
    for name in ("ids", "sentences", "documents"):
        assert getattr(loaded, name).tolist() == getattr(pieces, name).tolist()
    (tmp_path / "pieces" / "ids.npy").write_bytes((tmp_path / "pieces" / "ids.npy").read_bytes()[:100])
    with pytest.raises(UserError, match=r"ids\.npy is damaged"):
        Pieces.load(tmp_path / "pieces")


def test_the_size_follows_the_text_unless_its_letters_need_more() -> None:
    assert [vocabulary_size(size) for size in (10, 10**6, 33_400_000, 470_000_000)] == [100, 1400, 8000, 30_000]
    small = train_wordpiece(_sentences(), vocabulary=20, at_least_letters=True)
    assert 100 < len(small) < 300 and small.tokenize("kalo") != ["[UNK]"]


def test_chinese_characters_are_words() -> None:
    tokenizer = train_wordpiece(["深度学习 models", "学习深度 models"] * 9, vocabulary=60, cased=True)
    assert tokenizer.tokenize("深度models学习") == ["深", "度", "models", "学", "习"]
