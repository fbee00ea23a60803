"""General text of a stage: what is drawn of it, and how much of that is read."""

import dataclasses
import itertools
import string
from pathlib import Path
from types import SimpleNamespace

import pytest
from transformers import BertTokenizerFast

from distill import text
from distill.recipes import RECIPES
from distill.stage_batches import stage_batches
from distill.text import documents_for, first_texts
from teacher.corpus import load_corpus

MARKS = ["".join(pair) for pair in itertools.product(string.ascii_lowercase[:6], string.ascii_lowercase[:10])]
"""One a document."""


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    """60 documents of 20 words, all its own mark."""
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join(" ".join([mark] * 20) for mark in MARKS) + "\n", encoding="utf-8")
    return str(path)


def _places(documents: list[str]) -> list[int]:
    return [MARKS.index(document.split()[0]) for document in documents]


def test_the_first_documents_drawn_are_of_all_the_text_and_the_same_every_time(corpus: str) -> None:
    every = _places(documents_for(corpus, SimpleNamespace(), 1000))  # type: ignore[arg-type]
    assert sorted(every) == list(range(60))
    few = _places(documents_for(corpus, SimpleNamespace(), 20))  # type: ignore[arg-type]
    assert few == every[:20]
    assert {place // 20 for place in few[:7]} == {0, 1, 2}


def test_of_long_documents_no_more_are_held_than_memory_has_room_for(
    corpus: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = len(first_texts(load_corpus(corpus)))
    assert whole == 60 and not capsys.readouterr().out
    monkeypatch.setattr(text, "MOST_CHARACTERS", 59 * 10)
    assert _places(first_texts(load_corpus(corpus))) == list(range(10))
    assert "of text the first 10 documents are used" in capsys.readouterr().out
    assert sorted(_places(documents_for(corpus, SimpleNamespace(), 1000))) == list(range(10))  # type: ignore[arg-type]


def test_a_stage_of_few_steps_reads_from_all_of_the_text(corpus: str, tiny_tokenizer: BertTokenizerFast) -> None:
    general = next(stage for stage in RECIPES["tinybert"]() if stage.data == "text")
    stage = dataclasses.replace(general, steps=3, batch_size=10)
    prepared = SimpleNamespace(tokenizer=tiny_tokenizer, pad=tiny_tokenizer.pad_token_id)
    shared = SimpleNamespace(text=corpus, data=None, text_length=12)
    found = stage_batches(stage, SimpleNamespace(seed=0), prepared, tiny_tokenizer, shared)  # type: ignore[arg-type]
    texts = tiny_tokenizer.batch_decode(found.batches.collate(range(30), 0)["input_ids"], skip_special_tokens=True)
    # A document of 40 pieces is four sequences: 30 of them are eight documents.
    places = set(_places(texts))
    assert len(places) == 8 and {place // 20 for place in places} == {0, 1, 2}
