"""Predictions: texts are read in order whatever the file, bad lines are named, and outputs become answers."""

import gzip
import json
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForTokenClassification,
    BertTokenizerFast,
    PreTrainedModel,
)

from common.artifact import save
from common.card import CardText
from common.errors import UserError
from distill import predict_lines
from distill.predict import PredictConfig, Running, predict
from distill.predict_answers import Answering, Head
from distill.predict_heads import HEADS, head_for
from distill.predict_input import SAMPLE, read_texts
from distill.predict_lines import Faults, Lines, open_lines
from distill.predict_models import find_model
from distill.predict_texts import Reading, Text
from distill.predictor import chunks, length_batches
from students.export import export_onnx
from teacher.cutting import words_of
from teacher.data import Example, TaskData, load_task
from teacher.decoding import Oddities
from teacher.prepare import predict_logits, prepare, tune
from teacher.questions import Answer, Gold
from teacher.tasks import task_for

CARD = CardText(title="t", description="d", task="t")


def texts_of(path: Path, *, strict: bool = False, **reading: Any) -> list[Text]:
    faults = Faults(str(path), strict=strict)
    with open_lines(path, faults) as lines:
        return list(read_texts(lines, path, Reading(file=path, **reading), faults, Oddities()))


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_text_file_gives_a_text_a_line_and_names_the_bad_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "t.txt", b"\xef\xbb\xbfone\r\n\ntw\xffo\n three \x00\n\xc3\xa9 four")
    assert texts_of(path) == [Text(1, "one"), Text(4, "three"), Text(5, "é four")]
    assert capsys.readouterr().out.splitlines() == [
        f"{path}:2 has no text: left out",
        f"{path}:3 is not UTF-8: left out",
    ]


def test_strict_ends_at_the_first_bad_line(tmp_path: Path) -> None:
    path = written(tmp_path, "t.txt", "one\n\ntwo\n")
    with pytest.raises(UserError, match=r"t\.txt:2 has no text"):
        texts_of(path, strict=True)


def test_jsonl_lines_that_are_broken_or_lack_a_field_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        '{"id": "a", "premise": "one", "hypothesis": "two", "label": 1}',
        '{"premise": "one"',
        "",
        '{"id": 7, "premise": "three"}',
        '{"premise": "three", "hypothesis": null}',
        "[1]",
        '{"premise": ["x"], "hypothesis": "y"}',
        '{"premise": 5, "hypothesis": "six"}',
    ]
    path = written(tmp_path, "p.jsonl", "\n".join(rows))
    assert texts_of(path) == [Text(1, "one", "two", "a"), Text(8, "5", "six")]
    said = [line.removeprefix(f"{path}:") for line in capsys.readouterr().out.splitlines()]
    assert [line.split()[0] for line in said] == ["2", "4", "5", "6", "7"]
    for line, words in zip(
        said, ("broken JSON", "no column 'hypothesis'", "no text in", "no JSON object", "a list"), strict=True
    ):
        assert words in line


def test_csv_rows_with_line_ends_and_wrong_numbers_of_fields(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = 'id,text,label\n1,"one, and\nmore",x\n2,two\n3,three,x\n4,,y\n5,five,y\n6,"six,y\n7,seven,y\n'
    path = written(tmp_path, "t.csv", content)
    expected = [(2, "one, and\nmore", "1"), (5, "three", "3"), (7, "five", "5"), (9, "seven", "7")]
    assert texts_of(path) == [Text(line, text, None, name) for line, text, name in expected]
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(f"{path}:4 has 2 of 3 fields")
    assert said[1].startswith(f"{path}:6 has no text in column 'text'")
    assert said[2].startswith(f"{path}:8 has a quote that is not closed")
    assert len(said) == 3


def test_texts_that_repeat_below_the_first_do_not_make_it_a_header(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", "Great film!\nok\nok\nno\nno\n")
    assert [text.text for text in texts_of(path)] == ["Great film!", "ok", "ok", "no", "no"]
    path = written(tmp_path, "u.csv", "review\nok\nok\nno\nno\n")
    assert [text.line for text in texts_of(path)] == [2, 3, 4, 5]


@pytest.mark.parametrize("rows", [3, 3 * SAMPLE])
def test_a_quote_that_is_never_closed_costs_its_own_row_alone(
    rows: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"{number},text {number}" for number in range(rows)]
    lines[1] = '1,"text 1'
    found = texts_of(written(tmp_path, "t.csv", "\n".join(["id,text", *lines])))
    assert [text.text for text in found] == [f"text {number}" for number in range(rows) if number != 1]
    assert [text.line for text in found] == [number + 2 for number in range(rows) if number != 1]
    (said,) = capsys.readouterr().out.splitlines()
    assert ":3 has a quote that is not closed" in said


def test_tsv_quotes_are_signs_as_in_a_task_s_files(tmp_path: Path) -> None:
    path = written(tmp_path, "t.tsv", 'sentence\tlabel\n"it is\t0\na "b" c\t1\n')
    assert [text.text for text in texts_of(path)] == ['"it is', 'a "b" c']


def test_columns_are_those_of_the_user_or_found(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", "body,other,key\nfirst body,first other,k1\nsecond body,second other,k2\n")
    found = texts_of(path, text_column="other", pair_column="body", id_column="key")
    assert found == [Text(2, "first other", "first body", "k1"), Text(3, "second other", "second body", "k2")]
    with pytest.raises(UserError, match="unknown column 'bodie': did you mean 'body'"):
        texts_of(path, text_column="bodie")
    with pytest.raises(UserError, match="no column 'k' \\(--id-column\\)"):
        texts_of(path, text_column="body", id_column="k")
    with pytest.raises(UserError, match="so no columns"):
        texts_of(written(tmp_path, "t.txt", "a\n"), text_column="body")


def test_the_format_follows_from_the_name_or_the_first_line(tmp_path: Path) -> None:
    row = '{"text": "one"}\n'
    assert texts_of(written(tmp_path, "a", row)) == [Text(1, "one")]
    assert texts_of(written(tmp_path, "a.txt", row)) == [Text(1, row.strip())]
    assert texts_of(written(tmp_path, "a.txt", row), format="jsonl") == [Text(1, "one")]
    assert texts_of(written(tmp_path, "a.csv.gz", gzip.compress(b"text,label\none,1\n"))) == [Text(2, "one")]
    assert texts_of(written(tmp_path, "b", "one, two\n{three\n")) == [Text(1, "one, two"), Text(2, "{three")]
    assert texts_of(written(tmp_path, "empty.txt", "")) == []
    with pytest.raises(UserError, match="one list of objects"):
        texts_of(written(tmp_path, "l.json", "[\n" + row + "]"))
    assert texts_of(written(tmp_path, "o.json", row)) == [Text(1, "one")]
    for document in ('{"version": "1.1", "data": []}', '{\n "data": []\n}'):
        with pytest.raises(UserError, match="one JSON document"):
            texts_of(written(tmp_path, "d.json", document))


def test_files_whose_lines_end_in_cr_alone_are_read(tmp_path: Path) -> None:
    assert texts_of(written(tmp_path, "t.txt", "one\rtwo\r")) == [Text(1, "one"), Text(2, "two")]
    assert texts_of(written(tmp_path, "t.csv", "id,text\r7,one\r8,two")) == [
        Text(2, "one", None, "7"),
        Text(3, "two", None, "8"),
    ]
    assert texts_of(written(tmp_path, "u.txt", "one\rstill\ntwo\r\n")) == [Text(1, "one\rstill"), Text(2, "two")]


def test_a_line_without_end_takes_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict_lines, "LONGEST_LINE", 100)
    monkeypatch.setattr(predict_lines, "BLOCK", 16)
    faults = Faults("f", strict=False)
    with open_lines(written(tmp_path, "t.txt", "a\n" + "x" * 1000 + "\nb\n" + "y" * 500), faults) as lines:
        assert list(lines) == [(1, "a"), (3, "b")]
        assert len(lines._rest) <= 116
    assert faults.count == 2


@given(content=st.binary(max_size=60), size=st.integers(1, 7))
def test_lines_are_those_of_the_whole_whatever_the_blocks(content: bytes, size: int) -> None:
    place = 0

    def read(_: int) -> bytes:
        nonlocal place
        place += size
        return content[place - size : place]

    whole = content.decode("utf-8", errors="surrogateescape").split("\n")
    whole = whole[:-1] if whole[-1] == "" else whole
    expected = [line.removesuffix("\r") for line in whole]
    if expected:
        expected[0] = expected[0].removeprefix("\ufeff")
    assert list(Lines(read, Faults("f", strict=True))) == list(enumerate(expected, 1))


def test_many_bad_lines_are_counted_and_the_first_ones_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert texts_of(written(tmp_path, "t.txt", "\n" * 500 + "x\n")) == [Text(501, "x")]
    assert len(capsys.readouterr().out.splitlines()) == predict_lines.SHOWN + 1


@given(lengths=st.lists(st.integers(1, 50), max_size=40), batch_size=st.integers(1, 9), pieces=st.integers(1, 120))
def test_batches_hold_every_text_once_within_bounds(lengths: list[int], batch_size: int, pieces: int) -> None:
    batches = length_batches(lengths, batch_size, pieces)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) <= batch_size
        assert len(batch) == 1 or len(batch) * max(lengths[index] for index in batch) <= pieces
    flat = [lengths[index] for batch in batches for index in batch]
    assert flat == sorted(flat)


def test_a_chunk_ends_where_nothing_more_is_waiting() -> None:
    texts = [Text(line, "x") for line in range(1, 8)]
    idle = iter([False, True, False, False])
    assert [len(chunk) for chunk in chunks(iter(texts), 3, lambda: next(idle, False))] == [2, 3, 2]


def answers(kind: str, logits: Sequence[Sequence[float]], **options: Any) -> tuple[Head, list[dict[str, Any]]]:
    labels = ["a", "b", "c"][: len(logits[0])]
    config = {
        "architectures": ["BertForSequenceClassification"],
        "problem_type": kind,
        "id2label": {str(index): label for index, label in enumerate(labels)},
    }
    head = head_for(config, Answering(**options), "DIR")
    rows = [{"logits": np.array(row, dtype=np.float32)} for row in logits]
    return head, head.answers([Text(1, "x")] * len(rows), [], rows)


def test_one_class_has_softmax_probabilities() -> None:
    head, (found, sure) = answers("single_label_classification", [[0.0, math.log(2), 0.0], [0, -2000, 2000]])
    assert found == {"label": "b", "probabilities": {"a": 0.25, "b": 0.5, "c": 0.25}}
    assert sure["probabilities"] == {"a": 0, "b": 0, "c": 1}
    assert dict(zip(head.columns(), head.cells(found), strict=True)) == {
        "label": "b",
        "probability_a": 0.25,
        "probability_b": 0.5,
        "probability_c": 0.25,
    }


def test_top_keeps_the_likeliest() -> None:
    head, (found,) = answers("single_label_classification", [[0.0, math.log(3), math.log(4)]], top=2)
    assert list(found["probabilities"].items()) == [("c", 0.5), ("b", 0.375)]
    assert head.columns() == ["label", "class_1", "probability_1", "class_2", "probability_2"]
    assert head.cells(found) == ["c", "c", 0.5, "b", 0.375]
    _, (all_of_them,) = answers("single_label_classification", [[0.0, 1.0, 2.0]], top=9)
    assert list(all_of_them["probabilities"]) == ["c", "b", "a"]


def test_every_label_that_reaches_the_threshold_is_given() -> None:
    logits = [[-800.0, math.log(3), 0.0], [-1, -1, -1]]
    head, (found, none) = answers("multi_label_classification", logits)
    assert found == {"labels": ["b", "c"], "probabilities": {"a": 0.0, "b": 0.75, "c": 0.5}}
    assert none["labels"] == []
    assert head.cells(found) == ["b|c", 0.0, 0.75, 0.5]
    assert answers("multi_label_classification", logits, threshold=0.6)[1][0]["labels"] == ["b"]


def test_a_regression_has_a_score() -> None:
    head, found = answers("regression", [[2.5], [-1.0]])
    assert found == [{"score": 2.5}, {"score": -1.0}]
    assert (head.columns(), head.cells(found[0])) == (["score"], [2.5])


def test_heads_that_cannot_be_and_outputs_that_are_none() -> None:
    with pytest.raises(UserError, match="DIR is a BertModel"):
        head_for({"architectures": ["BertModel"]}, Answering(), "DIR")
    with pytest.raises(UserError, match="DIR has no labels"):
        head_for({"architectures": ["XForSequenceClassification"]}, Answering(), "DIR")
    with pytest.raises(UserError, match="NaN"):
        answers("single_label_classification", [[float("nan"), 0.0]])
    assert set(HEADS) >= {"ForSequenceClassification: regression"}


def test_a_model_is_found_in_its_run_or_all_of_them_are_named(tmp_path: Path) -> None:
    def model(name: str, weights: str = "model.safetensors") -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        (folder / weights).write_text("")
        return folder

    one = model("one/tiny/seed-0/model")
    assert [find_model(tmp_path / place) for place in ("one", "one/tiny/seed-0", "one/tiny/seed-0/model")] == [one] * 3
    onnx = model("two/a/model", "model.onnx")
    model("two/b/model")
    assert find_model(onnx) == onnx
    with pytest.raises(UserError, match=r"holds 2 models: give one of .*a/model, .*b/model"):
        find_model(tmp_path / "two")
    (tmp_path / "none").mkdir()
    for name, words in (
        ("none", "holds no model"),
        ("nowhere", "does not exist"),
        ("one/tiny/seed-0/model/config.json", "file"),
    ):
        with pytest.raises(UserError, match=words):
            find_model(tmp_path / name)
    (one / "config.json").unlink()
    with pytest.raises(UserError, match=r"lacks config\.json"):
        find_model(one)


@pytest.mark.parametrize("precision", [None, "fp32"])
def test_ragged_pairs_give_the_model_s_own_logits_in_order(
    precision: Any, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    model = tiny_bert(labels=1, problem_type="regression")
    with torch.no_grad():
        model.classifier.weight.mul_(200)
    save(model, tiny_tokenizer, tmp_path / "model", card=CARD, max_length=24)
    rng = np.random.default_rng(0)
    words = ["good", "film", "bad", "the", "a", "plot"]
    rows = [tuple(" ".join(rng.choice(words, rng.integers(1, most))) for most in (30, 9)) for _ in range(70)]
    path = written(tmp_path, "p.jsonl", "".join(json.dumps({"text1": a, "text2": b}) + "\n" for a, b in rows))
    running = Running(batch_size=8, precision=precision, threads=2)
    try:
        predict(PredictConfig(model=tmp_path, reading=Reading(file=path), out=tmp_path / "o.jsonl", running=running))
    finally:
        torch.set_num_threads(1)
    found = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [row["line"] for row in found] == list(range(1, 71))
    with torch.inference_mode():
        for row, (text, pair) in zip(found, rows, strict=True):
            inputs = tiny_tokenizer(text, pair, truncation="longest_first", max_length=24, return_tensors="pt")
            assert row["score"] == pytest.approx(model(**inputs).logits.item(), abs=2e-5)
    assert len({row["score"] for row in found}) > 60


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"text": ("a", "b")}, "put one in quotes"),
        ({"text": ("a",), "reading": Reading(file=Path("f"))}, "give one of them"),
        ({"pair": "b"}, "--pair is the second"),
        ({"out": Path("o.txt")}, r"ends in \.jsonl"),
    ],
)
def test_options_that_contradict_each_other(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        PredictConfig(model=Path("m"), **options)


def test_an_existing_file_is_left_as_it_is(tmp_path: Path) -> None:
    path = written(tmp_path, "o.csv", "mine")
    with pytest.raises(UserError, match="is there already"):
        PredictConfig(model=tmp_path, out=path)
    for wrong in ({"batch_size": 0}, {"threads": 0}, {"max_length": 7}):
        with pytest.raises(UserError, match="expected"):
            Running(**wrong)
    for wrong in ({"top": 0}, {"threshold": 1.5}):
        with pytest.raises(UserError, match="expected"):
            Answering(**wrong)


def test_an_exported_model_answers_as_its_torch_folder_does(
    tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    model = tiny_bert(labels=3, problem_type="single_label_classification")
    save(model, tiny_tokenizer, tmp_path / "model", card=CARD, max_length=32)
    export_onnx(model, tiny_tokenizer, tmp_path / "onnx", max_length=32)
    # As if exported for single texts, which takes seconds.
    shutil.copytree(tmp_path / "onnx", tmp_path / "single")
    about = json.loads((tmp_path / "onnx" / "onnx.json").read_text())
    (tmp_path / "single" / "onnx.json").write_text(json.dumps(about | {"inputs": ["input_ids", "attention_mask"]}))
    rows = [f'{{"text1": "{"good film " * count}", "text2": "bad"}}' for count in (1, 30, 4, 9, 2)]
    path = written(tmp_path, "p.jsonl", "\n".join(rows))
    answers = {}
    for kind in ("model", "onnx"):
        out = tmp_path / f"{kind}.jsonl"
        running = Running(batch_size=2, threads=1 if kind == "model" else 3)
        predict(PredictConfig(model=tmp_path / kind, reading=Reading(file=path), out=out, running=running))
        answers[kind] = [json.loads(line)["probabilities"] for line in out.read_text().splitlines()]
    for ours, theirs in zip(*answers.values(), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)
    for wrong, words in (("single", "exported for single texts"), ("fp", "--precision fp32")):
        running = Running(precision="fp32" if wrong == "fp" else None)
        folder = tmp_path / ("onnx" if wrong == "fp" else wrong)
        with pytest.raises(UserError, match=words):
            predict(PredictConfig(model=folder, text=("good",), pair="film", running=running))


def test_questions_are_answered_as_the_task_answers_them(
    tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    contexts = ["the film is good and the plot is boring " * count for count in (1, 5, 2, 1)]
    questions = ["is it good", "it", "the plot is " * 20, "is it bad"]
    answers_to = [("good",), ("plot",), (), ()]
    examples = tuple(
        Example(
            question, context, "", Gold(answers=tuple(Answer(a, context.index(a)) for a in given), id="", article="")
        )
        for question, context, given in zip(questions, contexts, answers_to, strict=True)
    )
    splits = dict.fromkeys(("train", "select", "evaluate"), examples)
    data = TaskData(
        name="t", kind="questions", labels=(), metric="f1", splits=splits, origins={}, fingerprint="", sources={}
    )
    model = tiny_bert(model_class=BertForQuestionAnswering, labels=2, id2label={0: "start", 1: "end"})
    with torch.no_grad():
        model.qa_outputs.weight.mul_(200)
    prepared = prepare(task_for(data), tiny_tokenizer, 24)
    tune(model, prepared)
    expected = prepared.decode(predict_logits(model, prepared, "evaluate"), "evaluate").tolist()
    save(model, tiny_tokenizer, tmp_path / "model", card=CARD, max_length=24)
    rows = [json.dumps({"question": q, "context": c.strip()}) for q, c in zip(questions, contexts, strict=True)]
    path = written(tmp_path, "q.jsonl", "\n".join(rows))
    running = Running(threads=1, batch_size=3)
    predict(PredictConfig(model=tmp_path, reading=Reading(file=path), out=tmp_path / "o.jsonl", running=running))
    found = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [row["answer"] for row in found] == expected
    for row, context in zip(found, contexts, strict=True):
        assert 0 <= row["score"] <= 1
        assert row["start"] is None if row["answer"] == "" else context[row["start"] : row["end"]] == row["answer"]
    # Every question has an answer where the model was not trained to find none.
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "no_answer_threshold"}))
    out = tmp_path / "o.csv"
    predict(PredictConfig(model=tmp_path, reading=Reading(file=tmp_path / "q.jsonl"), out=out, running=running))
    lines = [line.split(",") for line in out.read_text().splitlines()]
    assert lines[0] == ["line", "id", "answer", "start", "end", "score"]
    assert all(line[2] for line in lines[1:])
    with pytest.raises(UserError, match="line 1 has a question without a context"):
        predict(PredictConfig(model=tmp_path, text=("is it good",), running=running))


def test_choices_are_made_as_the_task_makes_them(
    tiny_bert: Callable[..., PreTrainedModel],
    tiny_tokenizer: BertTokenizerFast,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [
        ("the film is", ("good", "bad and boring", "great")),
        ("the plot", ("of music", "it")),
        ("an actor " * 20, ("a", "is")),
    ]
    examples = tuple(Example(text.strip(), None, 0, choices) for text, choices in rows)
    splits = dict.fromkeys(("train", "select", "evaluate"), examples)
    data = TaskData(
        name="t",
        kind="choices",
        labels=("1", "2", "3"),
        metric="accuracy",
        splits=splits,
        origins={},
        fingerprint="",
        sources={},
    )
    model = tiny_bert(model_class=BertForMultipleChoice, labels=1, id2label={0: "score"})
    with torch.no_grad():
        model.classifier.weight.mul_(200)
    prepared = prepare(task_for(data), tiny_tokenizer, 16)
    expected = prepared.decode(predict_logits(model, prepared, "evaluate"), "evaluate").tolist()
    save(model, tiny_tokenizer, tmp_path / "model", card=CARD, max_length=16)
    lines = [json.dumps({"id": text[:3], "context": text, "choices": choices}) for text, choices in rows]
    path = written(tmp_path, "c.jsonl", "\n".join([*lines, json.dumps({"context": "x", "choices": ["one"]})]))
    running = Running(threads=1, batch_size=2)
    predict(PredictConfig(model=tmp_path, reading=Reading(file=path), out=tmp_path / "o.jsonl", running=running))
    found = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [row["choice"] for row in found] == expected
    assert [row["id"] for row in found] == ["the", "the", "an"]
    for row, (_, choices) in zip(found, rows, strict=True):
        assert row["answer"] == choices[row["choice"]]
        assert len(row["probabilities"]) == len(choices)
        assert sum(row["probabilities"]) == pytest.approx(1, abs=1e-5)
    said = capsys.readouterr().out
    assert f"{path}:4 has a fault: two choices or more" in said
    assert "1 text longer than 16 pieces" in said
    asked = {"context": "the film", "question": "what is it?", "choices": ["good", "bad"]}
    path = written(tmp_path, "q.jsonl", json.dumps(asked))
    predict(PredictConfig(model=tmp_path, reading=Reading(file=path), out=tmp_path / "q-o.jsonl", running=running))
    assert json.loads((tmp_path / "q-o.jsonl").read_text())["answer"] in asked["choices"]
    table = written(tmp_path, "c.csv", "context,choice1,choice2\nthe plot,of music,it\n")
    predict(PredictConfig(model=tmp_path, reading=Reading(file=table), out=tmp_path / "o.csv", running=running))
    assert (tmp_path / "o.csv").read_text().splitlines()[1].startswith(f"2,,{expected[1]},")
    out = tmp_path / "one.jsonl"
    predict(PredictConfig(model=tmp_path, text=("the plot",), choices=("of music", "it"), out=out, running=running))
    assert json.loads(out.read_text())["probabilities"] == pytest.approx(found[1]["probabilities"], abs=1e-5)
    with pytest.raises(UserError, match="line 1 has no choices"):
        predict(PredictConfig(model=tmp_path, text=("the plot",), running=running))
    save(tiny_bert(problem_type="single_label_classification"), tiny_tokenizer, tmp_path / "other", card=CARD)
    with pytest.raises(UserError, match="--choices are for models of multiple choice"):
        predict(PredictConfig(model=tmp_path / "other", text=("the plot",), choices=("a", "b"), running=running))
    with pytest.raises(UserError, match="--choices are two or more"):
        PredictConfig(model=tmp_path, text=("the plot",), choices=("one",))


def test_entities_are_those_of_the_models_tags(
    tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast
) -> None:
    labels = {0: "O", 1: "B-X", 2: "I-X"}
    model = tiny_bert(model_class=BertForTokenClassification, labels=3, id2label=labels)
    with torch.no_grad():
        model.classifier.weight.mul_(20)
    save(model, tiny_tokenizer, tmp_path / "m", card=CARD)
    texts = ["good film, the plot.", "bad actor (music) is great", "?"]
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(texts), encoding="utf-8")
    out = tmp_path / "o.jsonl"
    predict(PredictConfig(model=tmp_path / "m", reading=Reading(file=path), out=out, running=Running(threads=1)))
    for text, line in zip(texts, out.read_text(encoding="utf-8").splitlines(), strict=True):
        words = [text[first:last] for first, last in words_of(text)]
        inputs = tiny_tokenizer(words, is_split_into_words=True, return_tensors="pt")
        with torch.inference_mode():
            best = model(**inputs).logits[0].argmax(-1)
        tags = [labels[int(best[inputs.word_ids().index(place)])] for place in range(len(words))]
        found = json.loads(line)["entities"]
        places = [(entity["text"], entity["label"]) for entity in found]
        assert len(found) == sum(tag.startswith("B-") for tag in tags)
        assert all(text[entity["start"] : entity["end"]] == entity["text"] for entity in found)
        assert [name for _, name in places] == ["X"] * len(found)
        assert all(0 < entity["probability"] <= 1 for entity in found)


def _tagged(folder: Path, make: Callable[..., PreTrainedModel], tokenizer: BertTokenizerFast, **config: Any) -> Path:
    """A model that takes its last label for every word."""
    model = make(model_class=BertForTokenClassification, **config)
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.copy_(torch.arange(float(model.config.num_labels)))
    save(model, tokenizer, folder, card=CARD)
    return folder


def _predicted(model: Path, text: str, **running: Any) -> dict[str, Any]:
    out = model / "o.jsonl"
    out.unlink(missing_ok=True)
    predict(PredictConfig(model=model, text=(text,), out=out, running=Running(threads=1, **running)))
    answer: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return answer


def test_words_that_were_not_read_have_no_tag(
    tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast
) -> None:
    model = _tagged(tmp_path / "m", tiny_bert, tiny_tokenizer, id2label={0: "NN", 1: "VB", 2: "DT"})
    words = _predicted(model, "the film is good and the actor is great", max_length=8)["words"]
    assert [word["label"] for word in words] == ["DT"] * 6 + [None] * 3
    assert [word["probability"] is None for word in words] == [False] * 6 + [True] * 3


@pytest.mark.parametrize(
    ("labels", "entities"),
    [
        (("O", "I-X", "I-Y", "B-X", "B-Y"), ["the", "film"]),
        (("O", "I-X"), ["the film"]),
        (("O", "B-X", "M-X", "E-X", "S-X"), ["the", "film"]),
        (("O", "B-X", "I-X", "L-X", "U-X"), ["the", "film"]),
    ],
)
def test_labels_of_any_order_and_scheme_are_read(
    tmp_path: Path,
    labels: tuple[str, ...],
    entities: list[str],
    tiny_bert: Callable[..., PreTrainedModel],
    tiny_tokenizer: BertTokenizerFast,
) -> None:
    names = dict(enumerate(labels))
    model = _tagged(tmp_path / "m", tiny_bert, tiny_tokenizer, labels=len(labels), id2label=names)
    assert [entity["text"] for entity in _predicted(model, "the film")["entities"]] == entities


def test_words_are_cut_as_in_training(
    tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast
) -> None:
    text = "good-film plot"
    rows = [{"text": f"{text} {n}", "spans": [{"start": 0, "end": 4, "label": "X"}]} for n in range(20)]
    path = written(tmp_path, "train.jsonl", "\n".join(map(json.dumps, rows)))
    task = task_for(load_task(str(path)))
    model = tiny_bert(model_class=BertForTokenClassification, labels=2, id2label={0: "O", 1: "B-X"})
    with torch.no_grad():
        model.classifier.bias.copy_(torch.tensor([-9.0, 9.0]))
    prepared = prepare(task, tiny_tokenizer, 16)
    tune(model, prepared)
    save(model, tiny_tokenizer, tmp_path / "m", card=CARD)
    assert [entity["text"] for entity in _predicted(tmp_path / "m", text)["entities"]] == ["good", "-", "film", "plot"]


def test_places_are_those_in_the_text_as_the_user_has_it(
    tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast
) -> None:
    tagged = _tagged(tmp_path / "tags", tiny_bert, tiny_tokenizer, labels=2, id2label={0: "O", 1: "B-X"})
    text = "  \tthe\x01 film "
    assert [entity["start"] for entity in _predicted(tagged, text)["entities"]] == [
        text.index("the"),
        text.index("film"),
    ]
    path = written(tmp_path, "t.txt", "the\n   the\n")
    assert [row.text for row in texts_of(path)] == ["the", "the"]
    predict(PredictConfig(model=tagged, reading=Reading(file=path), out=tmp_path / "t.jsonl"))
    lines = (tmp_path / "t.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["entities"][0]["start"] for line in lines] == [0, 3]

    save(tiny_bert(model_class=BertForQuestionAnswering, labels=2), tiny_tokenizer, tmp_path / "qa", card=CARD)
    row = {"question": " who is it ", "context": "\n  the good film has a great actor\n"}
    path = written(tmp_path, "q.jsonl", json.dumps(row))
    out = tmp_path / "q.out.jsonl"
    predict(PredictConfig(model=tmp_path / "qa", reading=Reading(file=path), out=out))
    answer = json.loads(out.read_text(encoding="utf-8"))
    assert answer["answer"]
    assert row["context"][answer["start"] : answer["end"]] == answer["answer"]


def test_half_of_a_surrogate_pair_is_replaced_as_in_training(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(
        '{"text": "cut \\ud83d"}\n{"text": "whole \\ud83d\\ude00", "extra": ["\\uDC00"]}\n{"text": "none"}\n'
    )
    faults, oddities = Faults(str(path), strict=True), Oddities()
    with open_lines(path, faults) as lines:
        found = [text.text for text in read_texts(lines, path, Reading(file=path), faults, oddities)]
    assert found == ["cut \ufffd", "whole \U0001f600", "none"]
    assert oddities.notes() == [f"2 lines with half of a surrogate pair, replaced (first: {path}:1)"]


def test_nan_in_json_is_no_text(tmp_path: Path) -> None:
    assert texts_of(written(tmp_path, "t.jsonl", '{"text": "one"}\n{"text": NaN}\n')) == [Text(1, "one")]
