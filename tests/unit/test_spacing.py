"""Text for the tokenizers of all families: spaces before sentences, what stands around them, what is hidden."""

import numpy as np
import pytest
from transformers import (
    AlbertTokenizer,
    BertTokenizerFast,
    PreTrainedTokenizerFast,
    RobertaTokenizer,
    XLMRobertaTokenizer,
)

from teacher.pieces import encode_documents
from teacher.pretrain_data import collate
from teacher.segments import pack_segments

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


def test_sentences_give_the_pieces_of_the_whole_text(tokenizer: PreTrainedTokenizerFast) -> None:
    sentences = ["a bad film.", "it is good."]
    pieces = encode_documents([sentences], tokenizer)
    whole = [tokenizer.cls_token_id, *pieces.ids.tolist(), tokenizer.sep_token_id]
    # Of byte-level vocabularies the first sentence too has a space before it: texts follow one another.
    lead = " " if isinstance(tokenizer, RobertaTokenizer) else ""
    assert whole == tokenizer(lead + " ".join(sentences))["input_ids"]


def test_a_batch_is_padded_on_the_right_and_hides_only_text(tokenizer: PreTrainedTokenizerFast) -> None:
    documents = [["a good film."] * count for count in (1, 2, 6)]
    pieces = encode_documents(documents, tokenizer)
    segments = pack_segments(pieces, length=30)
    batch = collate(pieces, segments, range(len(segments)), tokenizer, np.random.default_rng(0), 30)
    restored = batch["input_ids"].clone()
    restored.view(-1)[batch["positions"]] = batch["labels"]
    for row, (start, end) in enumerate(segments.spans.tolist()):
        length = end - start + 2
        assert batch["attention_mask"][row].tolist() == [1] * length + [0] * (restored.shape[1] - length)
        expected = [tokenizer.cls_token_id, *pieces.ids[start:end].tolist(), tokenizer.sep_token_id]
        assert restored[row, :length].tolist() == expected
        assert (restored[row, length:] == tokenizer.pad_token_id).all()
    assert (batch["input_ids"] == tokenizer.mask_token_id).any()
    assert not np.isin(batch["labels"].numpy(), [tokenizer.cls_token_id, tokenizer.sep_token_id]).any()
