"""Which pieces begin a word, for each family of tokenizers."""

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from common.errors import UserError
from teacher.tokenizer import train_wordpiece
from teacher.word_starts import word_starts

TEXT = ["the unlikely lowest newest", "the lower newer the low", "unlikely the new"] * 3


def _fast(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>")


def _bytes() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=60, special_tokens=["<pad>", "<unk>"]))
    return _fast(tokenizer)


def _sentencepiece() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    trainer = trainers.UnigramTrainer(vocab_size=40, special_tokens=["<pad>", "<unk>"], unk_token="<unk>")
    tokenizer.train_from_iterator(TEXT, trainer)
    return _fast(tokenizer)


def _wordpiece() -> PreTrainedTokenizerFast:
    return train_wordpiece(TEXT, vocabulary=45)


@pytest.mark.parametrize("make", [_wordpiece, _bytes, _sentencepiece])
def test_a_text_has_as_many_starts_as_words(make: object) -> None:
    tokenizer = make()
    starts = word_starts(tokenizer)
    assert starts.shape == (len(tokenizer),) and starts.dtype == bool
    text = "the unlowest newlow lowest thenew"
    ids = np.array(tokenizer(text, add_special_tokens=False)["input_ids"])
    assert len(ids) > 5, "every word is one piece: nothing is tested"
    # Pieces are put together where the table says so, and must give the words again.
    words = np.split(ids, np.flatnonzero(starts[ids])[1:])
    spelled = ["".join(tokenizer.convert_ids_to_tokens(word.tolist())) for word in words]
    assert [word.replace("##", "").strip("Ġ▁") for word in spelled] == text.split()
    assert starts[tokenizer.all_special_ids].all()


def test_an_unknown_family_is_named() -> None:
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "<pad>": 1, "a": 2}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(UserError, match="use --masking piece"):
        word_starts(_fast(tokenizer))
