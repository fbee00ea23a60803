"""A vocabulary extended with domain words: which words, and what their rows start as."""

import random
from collections import Counter
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForPreTraining,
    BertModel,
    BertTokenizerFast,
    DistilBertConfig,
    DistilBertForMaskedLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from common.errors import UserError
from teacher import vocabulary
from teacher.encoder import TextEncoder
from teacher.vocabulary import count_pieces, describe_extension, extend_embeddings, extend_wordpiece

TEXTS = ["The glyphosate, glyphosate!", "enzyme glyphosate ENZYME tensor", "film tensor café ωmega"] * 5


def test_the_words_that_save_most_come_first(tiny_tokenizer: BertTokenizerFast) -> None:
    # glyphosate: 10 pieces 15 times; enzyme: 6 pieces 10 times; tensor 6 pieces 10 times; cafe 4 pieces 5 times.
    extended = extend_wordpiece(tiny_tokenizer, TEXTS, 3)
    size = len(tiny_tokenizer)
    assert extended.convert_ids_to_tokens([size, size + 1, size + 2]) == ["glyphosate", "enzyme", "tensor"]
    assert len(extended) == size + 3
    assert extended.tokenize("A tensor, Glyphosate film") == ["a", "tensor", ",", "glyphosate", "film"]
    assert all(extended.get_vocab()[piece] == number for piece, number in tiny_tokenizer.get_vocab().items())
    assert len(tiny_tokenizer) == size


def test_rare_known_and_unknown_words_are_left(tiny_tokenizer: BertTokenizerFast) -> None:
    everything = extend_wordpiece(tiny_tokenizer, iter([*TEXTS, "rareword " * 4]), 99)
    assert set(everything.get_vocab()) - set(tiny_tokenizer.get_vocab()) == {"glyphosate", "enzyme", "tensor", "cafe"}
    assert "rareword" in extend_wordpiece(tiny_tokenizer, ["rareword " * 4], 99, least=4).get_vocab()
    assert extend_wordpiece(tiny_tokenizer, ["film the ωω"] * 9, 9).get_vocab() == tiny_tokenizer.get_vocab()


def test_equal_to_a_count_of_words(tiny_tokenizer: BertTokenizerFast, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(0)
    words = ["".join(rng.choices("abcde", k=rng.randint(1, 5))) for _ in range(200)]
    texts = [" ".join(rng.choices(words, k=9)) for _ in range(500)]
    saved = {
        word: count * (len(tiny_tokenizer.tokenize(word)) - 1)
        for word, count in Counter(" ".join(texts).split()).items()
        if count >= 5 and len(tiny_tokenizer.tokenize(word)) > 1
    }
    wanted = sorted(saved, key=lambda word: (-saved[word], word))[:40]
    extended = extend_wordpiece(tiny_tokenizer, texts, 40)
    size = len(tiny_tokenizer)
    assert extended.convert_ids_to_tokens(list(range(size, size + 40))) == wanted
    # Forgetting the rarest keeps the frequent ones.
    monkeypatch.setattr(vocabulary, "MOST_WORDS", 120)
    assert extend_wordpiece(tiny_tokenizer, texts, 10).convert_ids_to_tokens(size) == wanted[0]


def test_pieces_a_word_before_and_after(tiny_tokenizer: BertTokenizerFast) -> None:
    texts = ["the tensor , ωmega", "", "film tensor"]
    extended = extend_wordpiece(tiny_tokenizer, ["tensor"] * 9, 1)
    before, after = count_pieces(tiny_tokenizer, texts), count_pieces(extended, texts)
    assert (before.pieces, before.words, before.unknown) == (1 + 6 + 1 + 1 + 1 + 6, 6, 1)
    assert (after.pieces, after.words) == (6, 6) and after.per_word == 1.0
    line = describe_extension(tiny_tokenizer, extended, before, after)
    assert "by 1 words" in line and "2.667 pieces a word before, 1.000 after" in line


def test_a_saved_extension_loads_equal(tmp_path: Path, tiny_tokenizer: BertTokenizerFast) -> None:
    extended = extend_wordpiece(tiny_tokenizer, TEXTS, 9)
    extended.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.get_vocab() == extended.get_vocab()
    assert loaded(TEXTS[1], "pair").input_ids == extended(TEXTS[1], "pair").input_ids
    assert loaded.model_max_length == tiny_tokenizer.model_max_length


def test_added_tokens_keep_their_ids(tmp_path: Path, tiny_tokenizer: BertTokenizerFast) -> None:
    tiny_tokenizer.save_pretrained(tmp_path)
    other = BertTokenizerFast.from_pretrained(tmp_path)
    other.add_tokens(["[DRUG]"], special_tokens=True)
    extended = extend_wordpiece(other, TEXTS, 1)
    number = len(tiny_tokenizer)
    assert extended.convert_ids_to_tokens([number, number + 1]) == ["[DRUG]", "glyphosate"]
    assert extended.tokenize("glyphosate [DRUG] glyphosate") == ["glyphosate", "[DRUG]", "glyphosate"]


def _pretraining(size: int) -> BertForPreTraining:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = BertForPreTraining(BertConfig(vocab_size=size, **sizes))
    torch.nn.init.normal_(model.cls.predictions.bias)
    return model


def _distil(size: int) -> DistilBertForMaskedLM:
    model = DistilBertForMaskedLM(DistilBertConfig(vocab_size=size, dim=16, n_layers=1, n_heads=2, hidden_dim=16))
    torch.nn.init.normal_(model.vocab_projector.bias)
    return model


@pytest.mark.parametrize(("make", "spare"), [(_pretraining, 0), (_pretraining, 50), (_distil, 0)])
def test_new_rows_are_means_of_their_old_pieces(tiny_tokenizer: BertTokenizerFast, make, spare: int) -> None:
    extended = extend_wordpiece(tiny_tokenizer, TEXTS, 3)
    size = len(tiny_tokenizer)
    model: PreTrainedModel = make(size + spare)
    table = model.get_input_embeddings().weight.detach().clone()
    bias = model.get_output_embeddings().bias.detach().clone()
    assert extend_embeddings(model, tiny_tokenizer, extended) is model
    rows, output = model.get_input_embeddings().weight, model.get_output_embeddings()
    assert output.weight is rows and len(rows) == len(output.bias) == model.config.vocab_size
    assert len(rows) == max(size + 3, size + spare)
    assert torch.equal(rows[:size], table[:size]) and torch.equal(output.bias[:size], bias[:size])
    for number in range(size, size + 3):
        pieces = tiny_tokenizer.convert_tokens_to_ids(tiny_tokenizer.tokenize(extended.convert_ids_to_tokens(number)))
        torch.testing.assert_close(rows[number], table[pieces].mean(0))
        torch.testing.assert_close(output.bias[number], bias[pieces].mean())
    inputs = extended(["glyphosate film"], return_tensors="pt")
    assert model(**inputs)[0].shape[-1] == len(rows)


def test_a_model_without_a_head_and_untied_tables(tiny_tokenizer: BertTokenizerFast) -> None:
    extended = extend_wordpiece(tiny_tokenizer, TEXTS, 2)
    bare = BertModel(_pretraining(len(tiny_tokenizer)).config)
    assert len(extend_embeddings(bare, tiny_tokenizer, extended).get_input_embeddings().weight) == len(extended)
    config = _pretraining(len(tiny_tokenizer)).config
    config.tie_word_embeddings = False
    untied = BertForPreTraining(config)
    decoder = untied.cls.predictions.decoder.weight.detach().clone()
    extend_embeddings(untied, tiny_tokenizer, extended)
    pieces = TextEncoder(tiny_tokenizer).encode(["glyphosate"])[0]
    torch.testing.assert_close(untied.get_output_embeddings().weight[len(tiny_tokenizer)], decoder[pieces].mean(0))


def test_what_cannot_be_extended_is_refused(tiny_tokenizer: BertTokenizerFast) -> None:
    bpe = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(BPE({"a": 0, "b": 1}, [])))
    with pytest.raises(UserError, match="is a BPE one: a WordPiece vocabulary was expected"):
        extend_wordpiece(bpe, TEXTS, 5)
    with pytest.raises(UserError, match=r"0 words .* at least 1"):
        extend_wordpiece(tiny_tokenizer, TEXTS, 0)
    other = BertTokenizerFast(vocab={"[UNK]": 0, "[PAD]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "a": 5})
    with pytest.raises(ValueError, match="no extension"):
        extend_embeddings(_pretraining(len(tiny_tokenizer)), tiny_tokenizer, other)
