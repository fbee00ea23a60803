"""Passages of text for any tokenizer: cuts, specials by the tokenizer, spaces, candidates for masking."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    AlbertTokenizer,
    AutoTokenizer,
    BertTokenizerFast,
    PreTrainedTokenizerFast,
    RobertaTokenizer,
    XLMRobertaTokenizer,
)

from teacher.passages import (
    candidates,
    collate_passages,
    held_out_passages,
    passage_batches,
    passages,
    spaced,
    specials_of,
)
from teacher.pieces import Pieces, encode_documents

LETTERS = "abcdefghijklmnopqrstuvwxyz."


def _roberta() -> RobertaTokenizer:
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *LETTERS, "Ġ", *(f"Ġ{letter}" for letter in LETTERS), "<mask>"]
    return RobertaTokenizer(
        vocab={piece: number for number, piece in enumerate(pieces)}, merges=[("Ġ", letter) for letter in LETTERS]
    )


def _sentence_pieces(kind: type, specials: list[str]) -> PreTrainedTokenizerFast:
    pieces = [*specials, "▁", *LETTERS, *(f"▁{letter}" for letter in LETTERS)]
    tokenizer = kind(vocab=[(piece, -float(number)) for number, piece in enumerate(pieces)])
    tokenizer.add_special_tokens({"mask_token": tokenizer.mask_token})
    return tokenizer


@pytest.fixture(params=["bert", "roberta", "xlm-roberta", "albert"])
def tokenizer(request: pytest.FixtureRequest, tiny_tokenizer: BertTokenizerFast) -> PreTrainedTokenizerFast:
    return {
        "bert": lambda: tiny_tokenizer,
        "roberta": _roberta,
        "xlm-roberta": lambda: _sentence_pieces(XLMRobertaTokenizer, ["<s>", "<pad>", "</s>", "<unk>"]),
        "albert": lambda: _sentence_pieces(AlbertTokenizer, ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]),
    }[request.param]()


def test_a_document_is_framed_and_tokenised_as_its_tokenizer_does(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    sentences = ["a bad film.", "it is good."]
    pieces = encode_documents(list(spaced([sentences], tokenizer)), tokenizer)
    specials = specials_of(tokenizer)
    whole = [*specials.before.tolist(), *pieces.ids.tolist(), *specials.after.tolist()]
    assert whole == tokenizer(" ".join(sentences))["input_ids"]
    assert (len(specials.before), len(specials.after)) == (1, 1)
    assert specials.mask == tokenizer.mask_token_id and specials.pad == tokenizer.pad_token_id
    tokenizer.save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path)("a bad")["input_ids"] == tokenizer("a bad")["input_ids"]


def test_a_batch_is_padded_on_the_right_and_hides_only_text(tokenizer: PreTrainedTokenizerFast) -> None:
    documents = [["a good film."] * count for count in (1, 2, 6)]
    pieces = encode_documents(list(spaced(documents, tokenizer)), tokenizer)
    specials = specials_of(tokenizer)
    spans = passages(pieces, 30 - specials.count)
    batch = collate_passages(pieces, spans, specials, np.random.default_rng(0), 30)
    restored = batch["input_ids"].clone()
    restored.view(-1)[batch["positions"]] = batch["labels"]
    for row, (start, end) in enumerate(spans.tolist()):
        length = end - start + specials.count
        assert batch["attention_mask"][row].tolist() == [1] * length + [0] * (batch["input_ids"].shape[1] - length)
        assert restored[row, 1 : length - 1].tolist() == pieces.ids[start:end].tolist()
        assert (restored[row, length:] == specials.pad).all()
    assert batch["input_ids"].shape[1] <= 30
    assert not np.isin(batch["labels"].numpy(), specials.never).any()


def test_specials_inside_a_text_are_never_chosen_but_unknown_pieces_are(tiny_tokenizer: BertTokenizerFast) -> None:
    specials = specials_of(tiny_tokenizer)
    mask, unknown = tiny_tokenizer.mask_token_id, tiny_tokenizer.unk_token_id
    ids = np.array([[2, 70, mask, unknown, 3, 0], [2, 70, 71, 72, 73, 3]])
    assert candidates(ids, np.array([5, 6]), specials).tolist() == [
        [False, True, False, True, False, False],
        [False, True, True, True, True, False],
    ]


@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=6), min_size=1, max_size=5), st.integers(2, 12))
def test_passages_hold_every_piece_once_and_whole_sentences_where_they_fit(
    documents: list[list[int]], room: int
) -> None:
    lengths = [length for document in documents for length in document]
    pieces = Pieces(
        ids=np.arange(sum(lengths)),
        sentences=np.cumsum([0, *lengths]),
        documents=np.cumsum([0, *map(len, documents)]),
    )
    spans = passages(pieces, room).tolist()
    assert [place for start, end in spans for place in range(start, end)] == list(range(sum(lengths)))
    assert all(0 < end - start <= room for start, end in spans)
    boundaries = set(pieces.sentences[pieces.documents].tolist())
    starts = set(pieces.sentences.tolist())
    for start, end in spans:
        assert not any(start < boundary < end for boundary in boundaries)
        # Cut inside a sentence only where that alone fills the passage.
        assert end in starts or not any(start < place < end for place in starts)


def test_masks_follow_from_seed_and_step(tiny_tokenizer: BertTokenizerFast) -> None:
    pieces = encode_documents([["a good film is not a bad film."] * 5] * 4, tiny_tokenizer)
    batches = passage_batches(pieces, tiny_tokenizer, batch_size=2, length=24, seed=0)
    one, again, other = batches.collate([0, 1], 3), batches.collate([0, 1], 3), batches.collate([0, 1], 4)
    assert (one["input_ids"] == again["input_ids"]).all()
    assert not (one["input_ids"] == other["input_ids"]).all()
    assert batches.lengths.max() <= 24
    held_out = [list(held_out_passages(pieces, tiny_tokenizer, length=24, seed=0, most=3)) for _ in range(2)]
    assert sum(len(batch["input_ids"]) for batch in held_out[0]) == 3
    assert all((a["input_ids"] == b["input_ids"]).all() for a, b in zip(*held_out, strict=True))
