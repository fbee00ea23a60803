"""Vocabulary trimming: texts that were looked at are cut and answered as before, and nothing becomes unknown."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from families import tiny_classifier, tiny_masked_model
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from toy_tokenizers import SENTENCES, byte_level, unigram
from transformers import AutoTokenizer, BertTokenizerFast, PreTrainedTokenizerBase

from common.artifact import CardText, load, save
from common.errors import UserError
from students.vocabulary import pieces_per_word, trim_vocabulary

WORDS = sorted({word for sentence in SENTENCES for word in sentence.replace(",", "").split()})
OTHERS = ["film array plot", "goodness filmed rayed", "a e i o u"]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PreTrainedTokenizerBase]:
    """One of each kind of vocabulary."""
    return {
        "bert": _wordpiece(tmp_path_factory.mktemp("w")),
        "roberta": byte_level(tmp_path_factory.mktemp("b")),
        "xlm-roberta": unigram(tmp_path_factory.mktemp("u")),
    }


def _wordpiece(folder: Path) -> BertTokenizerFast:
    letters = sorted(set("".join(WORDS)))
    pieces = [*letters, *(f"##{letter}" for letter in letters), *WORDS, "##ing", "##ed", "fi", "##lm", "##od", "##ay"]
    # A letter that is known only within longer pieces, and a word that stops where nothing fits.
    pieces += ["zoo", "##zy", "qua", "##ck"]
    vocabulary = {piece: place for place, piece in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    BertTokenizerFast(tokenizer_object=tokenizer, model_max_length=64).save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta"])
def test_texts_are_answered_as_before(
    tokenizers: dict[str, PreTrainedTokenizerBase], kind: str, tmp_path: Path
) -> None:
    tokenizer = tokenizers[kind]
    model = tiny_classifier(kind, len(tokenizer), pad_token_id=tokenizer.pad_token_id).eval()
    texts = ["the film is good", "a bad film", "zoom quas unheard"]
    trimmed = trim_vocabulary(model, tokenizer, texts)
    assert trimmed.rows_after == len(trimmed.tokenizer) < trimmed.rows_before
    save(trimmed.model, trimmed.tokenizer, tmp_path / "m", card=CardText(title="t", description="d", task="t"))
    reloaded, again = load(tmp_path / "m")
    for pair in (None, texts[::-1]):
        before, after = (one(texts, pair, padding=True, return_tensors="pt") for one in (tokenizer, again))
        assert torch.equal(torch.tensor(trimmed.rows)[after["input_ids"]], before["input_ids"])
        with torch.no_grad():
            assert torch.equal(model(**before).logits, reloaded(**after).logits)
    saved = (trimmed.rows_before - trimmed.rows_after) * model.get_input_embeddings().embedding_dim * 4
    assert trimmed.bytes_saved == saved


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_part_of_the_texts_is_cut_as_before_and_others_stay_known(
    tokenizers: dict[str, PreTrainedTokenizerBase], data: st.DataObject
) -> None:
    kind = data.draw(st.sampled_from(sorted(tokenizers)))
    tokenizer = tokenizers[kind]
    word = st.one_of(st.sampled_from(WORDS), st.text("abdefgilmnoqrstuyz", min_size=1, max_size=7))
    texts = data.draw(st.lists(st.lists(word, min_size=1, max_size=4).map(" ".join), min_size=1, max_size=4))
    trimmed = trim_vocabulary(tiny_classifier("bert", len(tokenizer)), tokenizer, texts)
    for text in texts:
        assert trimmed.tokenizer.tokenize(text) == tokenizer.tokenize(text)
    for text in (*OTHERS, *WORDS):
        known = tokenizer.unk_token_id not in tokenizer(text)["input_ids"]
        assert known <= (trimmed.tokenizer.unk_token_id not in trimmed.tokenizer(text)["input_ids"])


@pytest.mark.parametrize("kind", ["bert", "roberta", "electra", "albert", "distilbert"])
def test_output_tables_are_cut_too(tokenizers: dict[str, PreTrainedTokenizerBase], kind: str) -> None:
    tokenizer = tokenizers["roberta" if kind == "roberta" else "bert"]
    model = tiny_masked_model(kind, len(tokenizer)).eval()
    trimmed = trim_vocabulary(model, tokenizer, SENTENCES[:1])
    before, after = (one(SENTENCES[0], return_tensors="pt") for one in (tokenizer, trimmed.tokenizer))
    accepted = {name: value for name, value in before.items() if kind != "distilbert" or name != "token_type_ids"}
    with torch.no_grad():
        logits = model(**accepted).logits
        smaller = trimmed.model(**{name: after[name] for name in accepted}).logits
    assert torch.equal(logits[..., trimmed.rows], smaller)
    assert trimmed.model.config.vocab_size == trimmed.rows_after
    assert not torch.equal(logits[..., : trimmed.rows_after], smaller)


def test_the_model_that_was_given_stays_as_it_is(tokenizers: dict[str, PreTrainedTokenizerBase]) -> None:
    tokenizer = tokenizers["bert"]
    model = tiny_classifier("bert", len(tokenizer))
    weight = model.get_input_embeddings().weight.detach().clone()
    truncation = tokenizer.backend_tokenizer.truncation
    trim_vocabulary(model, tokenizer, ["a film"])
    assert torch.equal(model.get_input_embeddings().weight, weight)
    assert tokenizer.backend_tokenizer.truncation == truncation


def test_more_pieces_a_word_where_fewer_are_kept(tokenizers: dict[str, PreTrainedTokenizerBase]) -> None:
    tokenizer = tokenizers["bert"]
    trimmed = trim_vocabulary(tiny_classifier("bert", len(tokenizer)), tokenizer, ["a"])
    assert pieces_per_word(tokenizer, ["film film"]) == 1.0
    assert pieces_per_word(trimmed.tokenizer, ["film film"]) == 4.0


def test_a_vocabulary_of_another_kind_is_refused(tiny_bert: Callable[..., torch.nn.Module]) -> None:
    tokenizer = Tokenizer(models.WordLevel(dict(zip("abc", itertools.count(), strict=False)), unk_token="a"))
    from transformers import PreTrainedTokenizerFast

    with pytest.raises(UserError, match="WordLevel"):
        trim_vocabulary(tiny_bert(), PreTrainedTokenizerFast(tokenizer_object=tokenizer), ["a b"])
