"""BERT vocabularies that exist, from a vocab.txt or a folder."""

import os
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import BertTokenizerFast, PreTrainedTokenizerFast

from common.errors import UserError
from teacher import hub
from teacher.wordpiece import load_wordpiece, tokenizer_fingerprint

SPECIALS = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def _vocabulary(path: Path, *pieces: str, end: str = "\n") -> str:
    path.write_bytes(end.join([*SPECIALS, *pieces, ""]).encode())
    return str(path)


def test_a_vocab_txt(tmp_path: Path) -> None:
    tokenizer = load_wordpiece(_vocabulary(tmp_path / "vocab.txt", "paris", "##ian", "good", end="\r\n"))
    assert tokenizer.tokenize("Parisian Good bad") == ["paris", "##ian", "good", "[UNK]"]
    assert (tokenizer.cls_token_id, tokenizer.mask_token_id, len(tokenizer)) == (3, 5, 9)
    assert tokenizer("good").input_ids == [3, 8, 4]
    cased = load_wordpiece(_vocabulary(tmp_path / "cased.txt", "Paris", "paris"))
    assert cased.tokenize("Paris paris PARIS") == ["Paris", "paris", "[UNK]"]


def test_a_folder_and_one_of_ours(tmp_path: Path, tiny_tokenizer: BertTokenizerFast) -> None:
    tiny_tokenizer.save_pretrained(tmp_path / "plain")
    tiny_tokenizer.save_pretrained(tmp_path / "run" / "model")
    for folder in ("plain", "run"):
        loaded = load_wordpiece(str(tmp_path / folder))
        assert loaded.get_vocab() == tiny_tokenizer.get_vocab()
        assert tokenizer_fingerprint(loaded) == tokenizer_fingerprint(tiny_tokenizer)
    other = load_wordpiece(_vocabulary(tmp_path / "vocab.txt", "good"))
    assert tokenizer_fingerprint(other) != tokenizer_fingerprint(tiny_tokenizer)
    before = tokenizer_fingerprint(other)
    other("good", truncation=True, max_length=5, padding="max_length")
    assert tokenizer_fingerprint(other) == before


def test_what_is_no_bert_vocabulary_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"twice\.txt:8 has the piece 'good' a second time"):
        load_wordpiece(_vocabulary(tmp_path / "twice.txt", "good", "good"))
    (tmp_path / "words.txt").write_text("[PAD]\n[UNK]\ngood\n")
    with pytest.raises(UserError, match=r"words\.txt lacks \[CLS\], \[SEP\], \[MASK\]"):
        load_wordpiece(str(tmp_path / "words.txt"))
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"binary\.txt cannot be read .* UTF-8"):
        load_wordpiece(str(tmp_path / "binary.txt"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty has no tokenizer: one of tokenizer\.json"):
        load_wordpiece(str(tmp_path / "empty"))
    bpe = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(BPE({"a": 0}, [])), unk_token="a")
    bpe.save_pretrained(tmp_path / "bpe")
    with pytest.raises(UserError, match="is a BPE one"):
        load_wordpiece(str(tmp_path / "bpe"))
    with pytest.raises(UserError, match=r"nothing\.txt does not exist"):
        load_wordpiece(os.path.join(tmp_path, "nothing.txt"))  # noqa: PTH118 - as a user writes it
    monkeypatch.setattr(hub, "_resolves", lambda _: False)
    with pytest.raises(UserError, match="--tokenizer org/name cannot be loaded"):
        load_wordpiece("org/name")
