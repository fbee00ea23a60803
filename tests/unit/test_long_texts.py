"""Texts longer than a model reads, and texts in another script."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertTokenizerFast

from common.errors import UserError
from distill.study_config import StudyConfig
from distill.study_students import searched_students
from distill.words import worded
from teacher.data import Example, TaskData
from teacher.options import TaskOptions
from teacher.scratch import encoder_for, expected_tokenizer, in_another_script
from teacher.sentences import split_sentences
from teacher.tasks import task_for
from teacher.tasks.long_texts import EncodedWindows, _windows, pooled
from teacher.tokenizer import train_wordpiece


def _data(texts: list[str], long: str = "truncate", stride: int | None = None) -> TaskData:
    rows = tuple(Example(text, None, place % 2) for place, text in enumerate(texts))
    return TaskData(
        name="t", kind="classification", labels=("a", "b"), metric="accuracy", splits={"train": rows}, origins={},
        fingerprint="f", sources={}, long=long, stride=stride,
    )  # fmt: skip


TEXTS = ["good film", "good film bad plot actor music story good film bad", "bad"]


def test_windows_hold_the_whole_text_and_its_label(tiny_tokenizer: BertTokenizerFast) -> None:
    data = _data(TEXTS, "windows", 2)
    encoded = task_for(data).encode(data.splits["train"], tiny_tokenizer, 8)
    assert isinstance(encoded, EncodedWindows)
    assert encoded.example.tolist() == [0, 1, 1, 2] and encoded.labels.tolist() == [0, 1, 1, 0]
    assert encoded.references.tolist() == [0, 1, 0] and encoded.truncated == 0
    first, second = (encoded.input_ids[row][1:-1].tolist() for row in (1, 2))
    whole = tiny_tokenizer(TEXTS[1], add_special_tokens=False)["input_ids"]
    assert first + second[2:] == whole and first[-2:] == second[:2]


def test_scores_of_windows_are_averaged(tiny_tokenizer: BertTokenizerFast) -> None:
    data = _data(TEXTS, "windows", 2)
    task = task_for(data)
    encoded = task.encode(data.splits["train"], tiny_tokenizer, 8)
    logits = np.array([[1.0, 0], [3, 0], [0, 5], [0, 1]])
    np.testing.assert_allclose(pooled(logits, encoded), [[1, 0], [1.5, 2.5], [0, 1]])
    assert task.decode(logits, encoded).tolist() == [0, 1, 1]


def test_short_texts_are_the_same_in_every_way(tiny_tokenizer: BertTokenizerFast) -> None:
    plain = task_for(_data(TEXTS)).encode(_data(TEXTS).splits["train"], tiny_tokenizer, 32)
    for way in ("head+tail", "windows"):
        other = task_for(_data(TEXTS, way)).encode(_data(TEXTS).splits["train"], tiny_tokenizer, 32)
        assert [ids.tolist() for ids in other.input_ids] == [ids.tolist() for ids in plain.input_ids]
        assert other.references.tolist() == plain.references.tolist()


def test_beginning_and_end_are_kept(tiny_tokenizer: BertTokenizerFast) -> None:
    data = _data(TEXTS, "head+tail")
    encoded = task_for(data).encode(data.splits["train"], tiny_tokenizer, 10)
    whole = tiny_tokenizer(TEXTS[1], add_special_tokens=False)["input_ids"]
    assert encoded.input_ids[1][1:-1].tolist() == whole[:2] + whole[-6:]
    assert encoded.truncated == 1 and len(encoded) == 3


@given(length=st.integers(0, 60), room=st.integers(2, 20), share=st.integers(0, 6))
def test_every_piece_is_in_a_window(length: int, room: int, share: int) -> None:
    share = min(share, room - 1)
    windows = _windows(list(range(length)), room, share)
    assert set().union(*windows) == set(range(length))
    assert max(map(len, windows)) <= room and len(windows) >= 1
    assert all(one[-share:] == other[:share] for one, other in itertools.pairwise(windows) if share)
    assert not any(len(window) <= share for window in windows[1:])


@pytest.mark.parametrize(
    ("options", "message"),
    [({"long": "both"}, "--long both: expected truncate"), ({"stride": 60}, "--stride 60: expected 0 to 42")],
)
def test_options_that_cannot_be_are_refused(options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        TaskOptions(**options)


def test_ways_are_for_single_texts(tmp_path: Path) -> None:
    path = tmp_path / "d.tsv"
    rows = (f"one text {n}\tother text {n}\t{n % 2}" for n in range(20))
    path.write_text("\n".join(["text1\ttext2\tlabel", *rows]))
    with pytest.raises(UserError, match="--long windows is for classes, numbers or labels of single texts"):
        TaskOptions(task=str(path), long="windows").load()
    with pytest.raises(UserError, match="--stride 4 is for questions, and for --long windows"):
        TaskOptions(task=str(path), stride=4).load()


CHINESE = ["房间太小。其他的都一般！", "商品的不足暂时还没发现,键盘很好。"]


def test_chinese_is_another_script_and_pretrained_on_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr("teacher.scratch.pretrain", lambda config, folder, **_: seen.append(config.corpus) or folder)
    chinese, english = _data(CHINESE), _data(TEXTS)
    assert in_another_script(chinese) and not in_another_script(english)
    for data, corpus in ((english, "auto"), (chinese, "auto"), (english, "task")):
        encoder_for("scratch", tmp_path, corpus=corpus, precision="fp32", checkpoint_every=1, data=data)
    assert seen[0] == "pydocs" and all(Path(path).is_file() for path in seen[1:])
    # Both tasks have one name and one fingerprint here, and so one file, in which the last one's texts stand.
    assert [json.loads(line)["text"] for line in Path(seen[2]).read_text(encoding="utf-8").splitlines()] == TEXTS


def test_what_auto_will_be_is_known_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teacher.scratch.minilm_folder", lambda: tmp_path)
    chinese = _data(CHINESE)
    assert expected_tokenizer("auto", chinese) is None
    # No deeper than the encoder of 4 layers that is pretrained for such texts.
    assert searched_students(StudyConfig(), chinese)["layers"].high == 4


def test_chinese_is_cut_into_sentences_and_characters() -> None:
    assert split_sentences(CHINESE[0]) == ["房间太小。", "其他的都一般！"]
    tokenizer = train_wordpiece(CHINESE * 10, vocabulary=60)
    assert tokenizer.tokenize("房间很好") == ["房", "间", "很", "好"]
    words = worded([CHINESE[0]], tokenizer, 32)[0]
    assert [words.text[word.start : word.end] for word in words.words] == list("房间太小一般")
