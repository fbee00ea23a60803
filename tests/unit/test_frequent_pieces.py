"""Which pieces count as frequent, and what keeping them spares texts that nobody has looked at."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from families import tiny_classifier
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from toy import toy_task
from toy_tokenizers import SENTENCES, byte_level, unigram
from transformers import BertTokenizerFast, PreTrainedTokenizerBase

from common.artifact import CardText, load, save
from common.errors import UserError
from distill.compress_chain import Artifact
from distill.compress_options import CompressOptions
from distill.compress_trim import Trimming
from students.frequent_pieces import frequent_pieces
from students.kept_pieces import piece_counts
from students.vocabulary import pieces_per_word, trim_vocabulary
from teacher.data import Example
from teacher.tasks import task_for

ALL = [chr(letter) for letter in range(33, 0x250)]
"""What a piece has to be cut into so that every letter counts as the task's."""


def settings_of(tokenizer: Tokenizer) -> dict[str, Any]:
    return json.loads(tokenizer.to_str())  # type: ignore[no-any-return]


def wordpiece(*pieces: str) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece({piece: place for place, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def test_wordpiece_is_in_the_order_of_ids_without_what_no_text_has() -> None:
    pieces = ("[UNK]", "[unused0]", "a", "##a", "the", "##ing", "Of", "don't", "café", "film", "кот", "late")
    tokenizer = wordpiece(*pieces)
    found = frequent_pieces(tokenizer, settings_of(tokenizer), 99, alike=ALL)
    # Capitals, accents and marks are no pieces of a text in lower case that is split at marks.
    assert found == ["the", "##ing", "film", "late"]
    assert frequent_pieces(tokenizer, settings_of(tokenizer), 2, alike=ALL) == ["the", "##ing"]
    assert frequent_pieces(tokenizer, settings_of(tokenizer), 99, alike=["##ing", "th", "e"]) == ["the", "##ing"]
    assert frequent_pieces(tokenizer, settings_of(tokenizer), 99, alike=["кот"]) == ["кот"]


def test_byte_pairs_are_in_the_order_of_merges_and_unigrams_in_that_of_scores() -> None:
    pairs = Tokenizer(models.BPE({"a": 0, "b": 1, "c": 2, "bc": 3, "abc": 4, "ab": 5}, [("a", "b"), ("b", "c")]))
    assert frequent_pieces(pairs, settings_of(pairs), 9, alike=ALL) == ["ab", "bc"]
    scores = [("<unk>", 0.0), ("<0x0A>", 0.0), ("aa", -5.0), ("bb", -2.0), ("a", -1.0), ("ab", -3.0)]
    likely = Tokenizer(models.Unigram(scores, unk_id=0))
    likely.add_special_tokens(["<unk>"])
    assert frequent_pieces(likely, settings_of(likely), 2, alike=ALL) == ["bb", "ab"]


def test_a_text_is_counted_where_one_is_given() -> None:
    tokenizer = wordpiece("[UNK]", "a", "the", "film", "plot", "##s", "кот")
    text = ["films plot plot", "plot film the a a a a a", "кот кот кот"]
    assert frequent_pieces(tokenizer, settings_of(tokenizer), 9, alike=[], text=text) == ["plot", "кот", "film", "the"]
    assert piece_counts(tokenizer, text)["plot"] == 3


@pytest.mark.parametrize("kind", ["wordpiece", "bytes", "unigram"])
def test_frequent_pieces_stay_whole_and_looked_at_texts_are_cut_as_before(
    kind: str, tmp_path: Path, tiny_tokenizer: BertTokenizerFast
) -> None:
    makers = {"wordpiece": lambda _: tiny_tokenizer, "bytes": byte_level, "unigram": unigram}
    tokenizer: PreTrainedTokenizerBase = makers[kind](tmp_path)
    model = tiny_classifier("bert" if kind == "wordpiece" else "roberta", len(tokenizer))
    seen, unseen = SENTENCES[3:4], SENTENCES[:3]
    before = pieces_per_word(tokenizer, unseen)
    bare = trim_vocabulary(model, tokenizer, seen)
    some = trim_vocabulary(model, tokenizer, seen, frequent=30)
    counted = trim_vocabulary(model, tokenizer, seen, frequent=len(tokenizer), general=unseen)
    assert bare.rows_after < some.rows_after
    words = [pieces_per_word(trimmed.tokenizer, unseen) for trimmed in (bare, some, counted)]
    assert words[0] >= words[1] >= words[2] == before < words[0]
    for trimmed in (bare, some, counted):
        assert trimmed.tokenizer.tokenize(seen[0]) == tokenizer.tokenize(seen[0])
        ids = trimmed.tokenizer(seen[0])["input_ids"]
        assert [trimmed.kept[number] for number in ids] == tokenizer(seen[0])["input_ids"]


def test_pieces_that_are_rare_in_training_go(tiny_tokenizer: BertTokenizerFast) -> None:
    model = tiny_classifier("bert", len(tiny_tokenizer))
    texts = ["film film plot", "actor film plot"]
    vocabularies = [
        trim_vocabulary(model, tiny_tokenizer, texts, least=least).tokenizer.get_vocab() for least in (1, 2, 3)
    ]
    for word, least in (("actor", 1), ("plot", 2), ("film", 3)):
        assert [word in vocabulary for vocabulary in vocabularies] == [number <= least for number in (1, 2, 3)]
    kept = trim_vocabulary(model, tiny_tokenizer, texts, least=3, frequent=1, general=["actor"])
    assert "actor" in kept.tokenizer.get_vocab()


def test_options_of_trimming_need_it_and_have_a_range() -> None:
    with pytest.raises(UserError, match="--keep-frequent 5 is for --trim-vocabulary: give that too"):
        CompressOptions(prune=0.5, keep_frequent=5)
    with pytest.raises(UserError, match="--general-text pydocs is for --trim-vocabulary"):
        CompressOptions(prune=0.5, general_text="pydocs")
    with pytest.raises(UserError, match="--trim-least 0: expected at least 1"):
        CompressOptions(trim_vocabulary=True, trim_least=0)
    with pytest.raises(UserError, match="--keep-frequent -1: expected 0 or more"):
        CompressOptions(trim_vocabulary=True, keep_frequent=-1)
    with pytest.raises(UserError, match="--keep-frequent 0 keeps none"):
        CompressOptions(trim_vocabulary=True, keep_frequent=0, general_text="pydocs")


def test_the_step_counts_in_a_file_and_says_what_other_texts_lose(
    tmp_path: Path, tiny_tokenizer: BertTokenizerFast
) -> None:
    data = toy_task(texts=["the actor", "a story"]).data
    splits = {**data.splits, "select": (Example("film film", None, 0),)}
    task = task_for(dataclasses.replace(data, splits=splits))
    names = {"id2label": {0: "a", 1: "b", 2: "c"}, "label2id": {"a": 0, "b": 1, "c": 2}}
    model = tiny_classifier("bert", len(tiny_tokenizer), **names)
    save(model, tiny_tokenizer, tmp_path / "m", card=CardText(title="m", description="", task="t"))
    (tmp_path / "general.txt").write_text("film film plot\n", encoding="utf-8")

    def trimmed(**options: Any) -> tuple[dict[str, int], tuple[str, ...]]:
        own = CompressOptions(trim_vocabulary=True, **options)
        step = Trimming(task=task, options=own, max_length=32)
        made = step(Artifact(folder=tmp_path / "m"), tmp_path / f"out-{len(options)}-{own.keep_frequent}")
        return load(made.folder)[1].get_vocab(), made.notes

    bare, notes = trimmed(keep_frequent=0)
    assert "film" not in bare and "actor" in bare
    assert notes[1] == "pieces a word on the selection split: 1.0000, then 4.0000"
    counted, notes = trimmed(keep_frequent=1, general_text=str(tmp_path / "general.txt"))
    assert "film" in counted and "plot" not in counted
    assert notes[1] == "pieces a word on the selection split: 1.0000, then 1.0000"
    (tmp_path / "empty.txt").write_text("\n", encoding="utf-8")
    for name, problem in (("nowhere.txt", "does not exist"), ("empty.txt", "no text in empty.txt")):
        with pytest.raises(UserError, match=rf"--general-text \S+{name}: .*{problem}"):
            trimmed(general_text=str(tmp_path / name))
