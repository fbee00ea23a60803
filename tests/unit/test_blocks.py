"""Tokenising a part at a time gives what tokenising at once gives."""

from functools import partial

import numpy as np
import pytest
from transformers import BertTokenizerFast

from common.blocks import blocks
from distill import text, words
from teacher.data import Example
from teacher.tasks import base


def test_texts_are_cut_alike_in_any_number_of_parts(
    tiny_tokenizer: BertTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [" ".join(["good", "film", "the", "plot"][: 1 + n % 4] * (1 + n % 5)) for n in range(23)]
    examples = [Example(text, "the actor", 0) for text in texts]

    def everything() -> tuple:
        rows = base.encode_texts(examples, tiny_tokenizer, 8)
        worded = words.worded(texts, tiny_tokenizer, 8)
        return rows, text.pieces(texts, tiny_tokenizer, 8), worded

    rows, pieces, worded = everything()
    assert 0 < rows.truncated < len(texts) < len(pieces)
    for module in (base, text, words):
        monkeypatch.setattr(module, "blocks", partial(blocks, size=4))
    again, own_pieces, own_words = everything()
    assert again.cut == rows.cut
    for one, other in ((rows.input_ids, again.input_ids), (rows.token_types, again.token_types), (pieces, own_pieces)):
        assert all(np.array_equal(left, right) for left, right in zip(one, other, strict=True))
    assert [entry.words for entry in own_words] == [entry.words for entry in worded]
    assert words.worded([], tiny_tokenizer, 8) == []
