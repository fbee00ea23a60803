"""What two tokenizers cut alike, and states compared over it."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_tokenizers import byte_level, unigram
from transformers import BertTokenizerFast, PreTrainedTokenizerBase

from distill.losses import hidden_mse
from distill.spans import NONE, OTHER, OWN, align, paired, read, spans_of, teachers_view
from teacher.data import Example
from teacher.tasks.long_texts import encode_long

TEXTS = (
    Example("the film is good", None, 0),
    Example("  The  plot's\tvery\n boring ", "a great, GREAT play!", 0),
    Example("naïve café 😀 übergroß 中文 text", "x" * 40, 0),
    Example("ﬁne e\u0301 … \u200b zero", None, 0),
)


@pytest.fixture(scope="module")
def tokenizers(
    tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: BertTokenizerFast
) -> dict[str, PreTrainedTokenizerBase]:
    folder = tmp_path_factory.mktemp("tokenizers")
    return {"wordpiece": tiny_tokenizer, "bytes": byte_level(folder), "unigram": unigram(folder)}


@pytest.mark.parametrize("other", ["bytes", "unigram", "wordpiece"])
@pytest.mark.parametrize("length", [64, 9])
def test_a_span_is_the_same_letters_in_both_readings(
    other: str, length: int, tokenizers: dict[str, PreTrainedTokenizerBase]
) -> None:
    ours, theirs = (read(TEXTS, tokenizers[name], length) for name in ("wordpiece", other))
    spans = spans_of(ours, theirs)
    for example, row in enumerate(spans.own):
        count = int(spans.counts[example])
        assert sorted({*row.tolist(), *spans.other[example].tolist()} - {NONE}) == list(range(count))
        assert row[0] == spans.other[example][0] == 0
        ends: list[tuple[int, int]] = []
        for span in range(1, count):
            covered = []
            for reading, numbers in ((ours, row), (theirs, spans.other[example])):
                places = reading.places[example][numbers == span]
                assert len({int(side) for side in places[:, 0]}) == 1
                covered.append((int(places[0, 0]), int(places[:, 1].min()), int(places[:, 2].max())))
            assert covered[0] == covered[1]
            ends.append(covered[0][:2])
        assert ends == sorted(ends)


@pytest.mark.parametrize("name", ["wordpiece", "bytes", "unigram"])
def test_beginning_and_end_are_read_as_the_task_reads_them(
    name: str, tokenizers: dict[str, PreTrainedTokenizerBase]
) -> None:
    texts = [example.text for example in TEXTS]
    asked = encode_long(texts, np.zeros(4), tokenizers[name], 9, long="head+tail", stride=None)
    found = read([Example(text, None, 0) for text in texts], tokenizers[name], 9, long="head+tail")
    assert [ids.tolist() for ids in found.input_ids] == [ids.tolist() for ids in asked.input_ids]
    for text, places in zip(texts, found.places, strict=True):
        assert len(text.rstrip()) <= places[-2, 2] <= len(text)


def test_words_of_one_reading_are_pieces_of_the_other(tokenizers: dict[str, PreTrainedTokenizerBase]) -> None:
    text = Example("the film is good", None, 0)
    for other in ("bytes", "unigram"):
        ours, theirs = (read([text], tokenizers[name], 64) for name in ("wordpiece", other))
        spans = spans_of(ours, theirs)
        # [CLS], the four words; [SEP] has none.
        assert spans.own[0].tolist() == [0, 1, 2, 3, 4, NONE]
        assert spans.counts.tolist() == [5]
    equal = spans_of(ours, ours)
    assert equal.own[0].tolist() == equal.other[0].tolist()


def _cuts(letters: int, ends: list[int]) -> np.ndarray:
    marks = sorted({end for end in ends if 0 < end < letters} | {letters})
    starts = [0, *marks[:-1]]
    return np.array([[-1, 0, 0], *([0, start, stop] for start, stop in zip(starts, marks, strict=True)), [-1, 0, 0]])


@given(st.integers(1, 30), st.lists(st.integers(1, 29)), st.lists(st.integers(1, 29)))
@settings(max_examples=60, deadline=None)
def test_spans_end_where_both_readings_end(letters: int, one: list[int], two: list[int]) -> None:
    first, second = _cuts(letters, one), _cuts(letters, two)
    common = sorted(set(first[1:-1, 2].tolist()) & set(second[1:-1, 2].tolist()))
    spans = align(first, second)
    for places, numbers in zip((first, second), spans, strict=True):
        assert numbers[0] == 0 and numbers[-1] == NONE
        expected = [1 + sum(end < int(stop) for end in common) for stop in places[1:-1, 2]]
        assert numbers[1:-1].tolist() == expected


def test_states_of_a_span_are_means_and_padding_has_no_part() -> None:
    generator = torch.Generator().manual_seed(0)
    student, teacher = torch.randn(2, 5, 3, generator=generator), torch.randn(2, 6, 3, generator=generator)
    batch = {
        OWN: torch.tensor([[0, 1, 1, 2, NONE], [0, 1, NONE, NONE, NONE]]),
        OTHER: torch.tensor([[0, 1, 2, 2, 2, NONE], [0, NONE, 1, 1, NONE, NONE]]),
    }
    own, other, valid = paired(student, teacher, batch)
    assert valid.tolist() == [[True, True, True], [True, True, False]]
    torch.testing.assert_close(own[0, 1], (student[0, 1] + student[0, 2]) / 2)
    torch.testing.assert_close(other[0, 2], teacher[0, 2:5].mean(0))
    torch.testing.assert_close(other[1, 1], (teacher[1, 2] + teacher[1, 3]) / 2)
    by_hand = [
        (student[0, 0] - teacher[0, 0]).square().mean(),
        (student[0, 1:3].mean(0) - teacher[0, 1]).square().mean(),
        (student[0, 3] - teacher[0, 2:5].mean(0)).square().mean(),
        (student[1, 0] - teacher[1, 0]).square().mean(),
        (student[1, 1] - teacher[1, 2:4].mean(0)).square().mean(),
    ]
    torch.testing.assert_close(hidden_mse(own, other, valid), torch.stack(by_hand).mean())
    student[0, 4] = teacher[1, 5] = torch.nan
    own, other, valid = paired(student, teacher, batch)
    assert own[valid].isfinite().all() and other[valid].isfinite().all()


def test_one_reading_is_compared_piece_by_piece() -> None:
    states = torch.randn(1, 3, 2)
    batch = {"attention_mask": torch.tensor([[1, 1, 0]])}
    own, other, valid = paired(states, states + 1, batch)
    assert own is states
    assert valid.tolist() == [[True, True, False]]
    assert torch.equal(other, states + 1)
    assert teachers_view(batch) == batch
