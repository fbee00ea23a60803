"""Augmentation: what is proposed, what is replaced, what stays."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from transformers import BertForMaskedLM, BertForPreTraining, BertModel, PreTrainedModel

from common.errors import UserError
from distill.augment import AugmentSettings, Choice, Proposers, augmented, edited
from distill.proposals import MaskedModel, load_masked_model, propose
from distill.word_vectors import vectors_from_pieces
from distill.words import worded
from teacher.data import Example
from teacher.splits import same

TEXTS = ["the film is good", "a very boring plot, poor zebra music", "film", "not the", "Naïve actor!"]


@pytest.fixture
def masked(tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer) -> MaskedModel:
    model = tiny_bert(model_class=BertForMaskedLM, initializer_range=0.5)
    with torch.no_grad():
        model.cls.predictions.bias.uniform_(-1, 1)
    return MaskedModel(model=model, tokenizer=tiny_tokenizer)


@pytest.fixture
def proposers(masked: MaskedModel) -> Proposers:
    table = masked.model.get_input_embeddings().weight
    return Proposers(
        tokenizer=masked.tokenizer,
        masked=masked,
        vectors=lambda words: vectors_from_pieces(table, masked.tokenizer, words),
    )


def _settings(**changes: object) -> AugmentSettings:
    return AugmentSettings(**({"copies": 3, "max_length": 64} | changes))


def _examples(*texts: str | tuple[str, str]) -> list[Example]:
    return [Example(text, None, 0) if isinstance(text, str) else Example(*text, 0) for text in texts]


def test_proposals_are_the_models_likeliest_whole_words_with_one_word_hidden(masked: MaskedModel) -> None:
    """Against one pass a word over the whole vocabulary, sorted in Python."""
    texts = worded(TEXTS, masked.tokenizer, 64)
    found = propose(masked, texts, 15, precision="fp32", tokens=40)
    names = masked.tokenizer.convert_ids_to_tokens(range(len(masked.tokenizer)))
    for text, proposed in zip(texts, found, strict=True):
        assert set(proposed) == {word.place for word in text.words if word.pieces == 1}
        for place, candidates in proposed.items():
            ids = torch.from_numpy(text.ids.copy())[None]
            ids[0, place] = masked.tokenizer.mask_token_id
            with torch.no_grad():
                logits = masked.model(ids).logits[0, place].tolist()
            whole = [i for i, name in enumerate(names) if name.isalnum() and i not in masked.tokenizer.all_special_ids]
            assert list(candidates) == [names[i] for i in sorted(whole, key=lambda i: -logits[i])[:15]]
    assert found == propose(masked, texts, 15, precision="fp32", tokens=10_000)


def test_proposals_in_bf16_leave_the_model_as_it_is(masked: MaskedModel) -> None:
    texts = worded(TEXTS, masked.tokenizer, 64)
    exact = propose(masked, texts, 15, precision="fp32")
    rough = propose(masked, texts, 15, precision="bf16")
    assert masked.model.dtype == torch.float32
    shared = [len(set(a[place]) & set(b[place])) for a, b in zip(exact, rough, strict=True) for place in a]
    assert min(shared) >= 12


def test_originals_come_first_and_no_text_twice(proposers: Proposers) -> None:
    examples = _examples(*TEXTS, "film")
    rows = list(augmented(examples, _settings(), proposers))
    assert rows == list(augmented(examples, _settings(), proposers))
    assert len({row.text for row in rows}) == len(rows)
    firsts = {row.source: row for row in reversed(rows)}
    assert [firsts[source].text for source in range(5)] == TEXTS
    assert [row.text for row in rows if row.source == 3] == ["not the"]
    assert all(row.source != 5 or row.text != "film" for row in rows)
    assert rows != list(augmented(examples, _settings(seed=1), proposers))


def test_what_is_drawn_for_an_example_does_not_depend_on_the_others(proposers: Proposers) -> None:
    alone = [row.text for row in augmented(_examples(TEXTS[0]), _settings(), proposers)]
    company = [
        row.text for row in augmented(_examples(TEXTS[0], *TEXTS[1:3]), _settings(), proposers) if row.source == 0
    ]
    assert alone == company


def test_stop_words_signs_and_spaces_stay(proposers: Proposers) -> None:
    (text,) = _examples("The  film;\tis (very) good...")
    rows = list(augmented([text], _settings(copies=8, probability=1.0), proposers))
    assert len(rows) > 2
    for row in rows[1:]:
        first, second, end = row.text.removeprefix("The  ").partition(";\tis (very) ")
        assert first.isalnum()
        assert second == ";\tis (very) "
        assert end.endswith("...")
        assert end.removesuffix("...").isalnum()


def test_of_a_pair_one_side_is_edited_and_the_other_identical(proposers: Proposers) -> None:
    pair = ("the  film is good", "A boring Plot!")
    rows = list(augmented(_examples(pair, pair[::-1]), _settings(copies=6, probability=1.0), proposers))
    for source, original in ((0, pair), (1, pair[::-1])):
        new = [row for row in rows if row.source == source][1:]
        changed = [(row.text != original[0], row.pair != original[1]) for row in new]
        assert set(changed) == {(True, False), (False, True)}


def test_excluded_texts_are_left_out(proposers: Proposers) -> None:
    rows = list(augmented(_examples(*TEXTS), _settings(), proposers))
    banned = next(row for row in rows if row.text not in TEXTS)
    excluded = frozenset({same(banned.text.replace(" ", "  "), None)})
    kept = list(augmented(_examples(*TEXTS), _settings(), proposers, excluded=excluded))
    assert kept == [row for row in rows if row != banned]


def test_without_a_masked_model_vectors_propose_all_words(proposers: Proposers, masked: MaskedModel) -> None:
    only = Proposers(tokenizer=masked.tokenizer, masked=None, vectors=proposers.vectors)
    near = proposers.vectors(["film"]).neighbours(["film"], 15)["film"]
    rows = list(augmented(_examples("film"), _settings(copies=200, probability=1.0), only))
    assert {row.text for row in rows} == {"film", *near}


def test_each_word_is_replaced_by_each_candidate_as_often_as_chance_says() -> None:
    choices = [Choice(0, 1, ("x", "y")), Choice(2, 3, ("z",))]
    generator = np.random.default_rng(0)
    texts = [edited("a b c", choices, 0.4, generator) for _ in range(4000)]
    for place, sign, share in ((0, "x", 0.2), (0, "y", 0.2), (2, "z", 0.4), (4, "c", 1.0)):
        # Four standard deviations of a share of 4,000 draws are below 0.031.
        assert np.mean([text[place] == sign for text in texts]) == pytest.approx(share, abs=0.031)
    assert edited("a b c", choices, 0.0, generator) == "a b c"
    assert edited("", (), 1.0, generator) == ""


def test_a_model_without_the_head_is_told_from_one_with_it(
    tmp_path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer
) -> None:
    for name, kind in (("bare", BertModel), ("pretraining", BertForPreTraining), ("masked", BertForMaskedLM)):
        tiny_bert(model_class=kind).save_pretrained(tmp_path / name)
        tiny_tokenizer.save_pretrained(tmp_path / name)
    assert load_masked_model(str(tmp_path / "bare")) is None
    for name in ("pretraining", "masked"):
        loaded = load_masked_model(str(tmp_path / name))
        assert loaded is not None
        assert not loaded.model.training
    (tmp_path / "bare" / "model.safetensors").write_bytes(b"{")
    with pytest.raises(UserError, match="cannot be loaded"):
        load_masked_model(str(tmp_path / "bare"))
