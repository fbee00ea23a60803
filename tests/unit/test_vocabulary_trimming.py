"""Trimmed vocabularies: the kept texts are cut and answered as before, and nothing that was known gets unknown."""

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from families import TEACHERS, tiny_classifier, tiny_masked_model
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from toy_tokenizers import SENTENCES, byte_level, unigram
from transformers import AutoTokenizer, BertTokenizerFast, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from common.artifact import CardText, load, save
from common.errors import UserError
from students.vocabulary import pieces_per_word, trim_vocabulary
from teacher.sources import minilm_folder

Makers = dict[str, Callable[[], PreTrainedTokenizerBase]]
KINDS = ("wordpiece", "bytes", "unigram")
WORDS = sorted({word for sentence in SENTENCES for word in sentence.replace(",", "").split()})
OTHERS = ["film array plot", "goodness filmed rayed", "a e i o u"]


@pytest.fixture(scope="module")
def tokenizers_by_kind(
    tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: BertTokenizerFast
) -> dict[str, PreTrainedTokenizerBase]:
    return {
        "wordpiece": tiny_tokenizer,
        "bytes": byte_level(tmp_path_factory.mktemp("bytes")),
        "unigram": unigram(tmp_path_factory.mktemp("unigram")),
    }


def model_for(kind: str, tokenizer: PreTrainedTokenizerBase, *, masked: bool = False):
    """A RoBERTa for tokenizers whose padding is 1, else a BERT."""
    family = "bert" if kind == "wordpiece" else "roberta"
    return (tiny_masked_model if masked else tiny_classifier)(family, len(tokenizer))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 3))
def test_kept_text_is_cut_and_answered_alike(
    tokenizers_by_kind: dict[str, PreTrainedTokenizerBase], kind: str, seed: int, count: int
) -> None:
    tokenizer, rng = tokenizers_by_kind[kind], random.Random(seed)
    words = " ".join(SENTENCES).split()
    texts = [" ".join(rng.choices(words, k=rng.randint(1, 6))) for _ in range(count)]
    model = model_for(kind, tokenizer)
    trimmed = trim_vocabulary(model, tokenizer, texts)
    assert trimmed.rows_after < trimmed.rows_before == len(tokenizer)
    before, after = (t(texts, return_tensors="pt", padding=True) for t in (tokenizer, trimmed.tokenizer))
    assert torch.equal(before["input_ids"], torch.tensor(trimmed.kept)[after["input_ids"]])
    for ids, own in zip(before["input_ids"].tolist(), after["input_ids"].tolist(), strict=True):
        assert tokenizer.convert_ids_to_tokens(ids) == trimmed.tokenizer.convert_ids_to_tokens(own)
    with torch.inference_mode():
        assert torch.equal(model(**before).logits, trimmed.model(**after).logits)
    other = ["".join(rng.choices(sorted(set("".join(words))), k=9)) for _ in range(20)]
    for text in other:
        known = tokenizer.unk_token_id not in tokenizer(text)["input_ids"]
        assert not known or trimmed.tokenizer.unk_token_id not in trimmed.tokenizer(text)["input_ids"]


@pytest.mark.parametrize("family", TEACHERS)
def test_every_family_gives_the_same_outputs_and_reloads(
    family: str, tokenizers_by_kind: dict[str, PreTrainedTokenizerBase], tmp_path: Path
) -> None:
    tokenizer = tokenizers_by_kind["bytes"]
    model = tiny_classifier(family, len(tokenizer) + 3)
    trimmed = trim_vocabulary(model, tokenizer, SENTENCES[:1])
    before, after = (t(SENTENCES[:1], return_tensors="pt") for t in (tokenizer, trimmed.tokenizer))
    with torch.inference_mode():
        expected = model(**before).logits
        assert torch.equal(expected, trimmed.model(**after).logits)
    width = model.get_input_embeddings().weight.shape[1]
    assert trimmed.bytes_saved == 4 * width * (trimmed.rows_before - trimmed.rows_after) > 0
    save(trimmed.model, trimmed.tokenizer, tmp_path / "m", card=CardText(title="t", description="d", task="toy"))
    again, own = load(tmp_path / "m")
    assert own.get_vocab() == trimmed.tokenizer.get_vocab()
    with torch.inference_mode():
        assert torch.equal(expected, again(**own(SENTENCES[:1], return_tensors="pt")).logits)


@pytest.mark.parametrize("kind", KINDS)
def test_a_masked_language_model_keeps_rows_and_biases(
    tokenizers_by_kind: dict[str, PreTrainedTokenizerBase], kind: str
) -> None:
    tokenizer = tokenizers_by_kind[kind]
    model = model_for(kind, tokenizer, masked=True)
    trimmed = trim_vocabulary(model, tokenizer, SENTENCES[:1])
    before, after = (t(SENTENCES[:1], return_tensors="pt") for t in (tokenizer, trimmed.tokenizer))
    with torch.inference_mode():
        expected = model(**before).logits[..., list(trimmed.kept)]
        torch.testing.assert_close(trimmed.model(**after).logits, expected)


def test_the_packaged_model_is_cut_alike_and_much_smaller() -> None:
    folder = minilm_folder()
    if folder is None:
        pytest.skip("the extra minilm is not installed")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    trimmed = trim_vocabulary(tiny_classifier("bert", len(tokenizer)), tokenizer, SENTENCES)
    assert trimmed.rows_after < trimmed.rows_before / 2
    ids = trimmed.tokenizer(SENTENCES)["input_ids"]
    assert [[trimmed.kept[number] for number in row] for row in ids] == tokenizer(SENTENCES)["input_ids"]
    assert trimmed.tokenizer.unk_token_id not in trimmed.tokenizer("unheard zygote café 中文")["input_ids"]


def test_a_tokenizer_of_more_pieces_than_rows_is_refused(
    tokenizers_by_kind: dict[str, PreTrainedTokenizerBase],
) -> None:
    with pytest.raises(UserError, match="no match"):
        trim_vocabulary(tiny_classifier("bert", 20), tokenizers_by_kind["wordpiece"], ["good"])


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PreTrainedTokenizerBase]:
    """One of each kind of vocabulary; the WordPiece one has words that stop where nothing fits."""
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
    assert torch.equal(logits[..., trimmed.kept], smaller)
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
    with pytest.raises(UserError, match="WordLevel"):
        trim_vocabulary(tiny_bert(), PreTrainedTokenizerFast(tokenizer_object=tokenizer), ["a b"])
