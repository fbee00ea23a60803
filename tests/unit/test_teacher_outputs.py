"""A teacher that is only its outputs: the file, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from common.errors import UserError
from distill.fit import refuse_layers
from distill.recipes import RECIPES, outputs_recipe
from distill.teacher_outputs import TeacherOutputs, read_outputs
from teacher.data import Example, TaskData


def _data(*, pair: str | None = None, labels: tuple[str, ...] = ("neg", "pos")) -> TaskData:
    rows = (Example("one\N{HORSE FACE}", pair, 0), Example("two  words", pair, 1))
    return TaskData(
        name="toy",
        kind="classification" if labels else "regression",
        labels=labels,
        metric="accuracy",
        origins={},
        fingerprint="0",
        sources={},
        splits={"train": rows, "select": rows, "evaluate": rows},
    )


def _read(path: Path, content: str | list[dict], data: TaskData | None = None, **columns: str) -> TeacherOutputs:
    text = content if isinstance(content, str) else "\n".join(json.dumps(row) for row in content)
    path.write_text(text + "\n", encoding="utf-8")
    return read_outputs(path, data or _data(), **columns)


def _row(text: str, pos: float, neg: float, form: str = "probabilities", **more: str) -> dict:
    return {"text": text, form: {"pos": pos, "neg": neg}, **more}


def test_probabilities_become_logits_with_the_same_distribution(tmp_path: Path) -> None:
    outputs = _read(tmp_path / "o.jsonl", [_row("one\N{HORSE FACE}", 0.9, 0.1), _row("two words", 0.0, 1.0)])
    logits = outputs.logits(_data().splits["train"])
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert shares == pytest.approx(np.array([[0.1, 0.9], [1.0, 0.0]]), abs=2e-6)
    assert np.isfinite(logits).all()


def test_logits_and_labels_in_another_order_and_case(tmp_path: Path) -> None:
    rows = [{"text": "one\N{HORSE FACE}", "logits": {"POS": 2.0, "Neg": -1.0}}, _row("two words", 1, 3, "logits")]
    assert _read(tmp_path / "o.jsonl", rows).logits(_data().splits["train"]).tolist() == [[-1.0, 2.0], [3.0, 1.0]]


def test_labels_that_differ_in_the_case_of_letters_alone(tmp_path: Path) -> None:
    data = _data(labels=("US", "us"))
    rows = [{"text": "two words", "logits": {"us": 1.0, "US": 2.0}}]
    assert _read(tmp_path / "o.jsonl", rows, data).logits(data.splits["train"])[1].tolist() == [2.0, 1.0]
    assert _read(tmp_path / "o.csv", "text,us,US\ntwo words,-1,2\n", data).logits(data.splits["train"])[1, 0] == 2.0
    with pytest.raises(UserError, match=r"o\.jsonl:1 has no number for us"):
        _read(tmp_path / "o.jsonl", [{"text": "two words", "logits": {"US": 1.0}}], data)


def test_pairs_are_looked_up_by_both_sides(tmp_path: Path) -> None:
    rows = [_row("one\N{HORSE FACE}", 2, 1, "logits", pair="side"), _row("one\N{HORSE FACE}", 4, 3, "logits", pair="x")]
    outputs = _read(tmp_path / "o.jsonl", rows, _data(pair="side"))
    logits = outputs.logits(_data(pair="side").splits["train"])
    assert logits[0].tolist() == [1.0, 2.0]
    assert np.isnan(logits[1]).all()


def test_a_column_a_label_holds_probabilities_or_logits(tmp_path: Path) -> None:
    train = _data().splits["train"]
    shares = "text,pos,neg\none\N{HORSE FACE},0.25,0.75\ntwo words,1,0\n"
    assert np.exp(_read(tmp_path / "o.csv", shares).logits(train))[0].tolist() == pytest.approx([0.75, 0.25])
    logits = "text,pos,neg\none\N{HORSE FACE},3,-3\ntwo words,-0.5,0.25\n"
    assert _read(tmp_path / "o.csv", logits).logits(train).tolist() == [[-3.0, 3.0], [0.25, -0.5]]
    named = "body,pos,neg\none\N{HORSE FACE},0.25,0.75\n"
    assert len(_read(tmp_path / "o.csv", named, text_column="body").rows) == 1


def test_a_regression_has_one_output(tmp_path: Path) -> None:
    data = _data(labels=())
    outputs = _read(tmp_path / "o.csv", "text,score\none\N{HORSE FACE},3.5\ntwo words,1\n", data)
    assert outputs.logits(data.splits["train"]).tolist() == [[3.5], [1.0]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("o.jsonl", [_row("a", 0.5, 0.5), _row("b", 0.9, 0.2)], r"o\.jsonl:2: .* add up to 1\.1"),
        ("o.jsonl", [_row("a", 1.5, -0.5)], r"o\.jsonl:1: .* below 0"),
        ("o.jsonl", [{"text": "a", "probabilities": {"pos": 0.5, "negg": 0.5}}], "did you mean 'neg'"),
        ("o.jsonl", [{"text": "a", "logits": {"pos": 0.5}}], "o.jsonl:1 has no number for neg"),
        ("o.jsonl", [{"text": "a", "logits": {"pos": "x", "neg": 1}}], "'x' was found where a number"),
        ("o.jsonl", [{"text": "a", "logits": [1, 2]}], "object of label to number"),
        ("o.jsonl", [{"text": "a", "score": 1}], "'probabilities' or 'logits'"),
        ("o.jsonl", [_row("a", 1, 0) | {"logits": {"pos": 1, "neg": 2}}], "one of probabilities and logits"),
        ("o.jsonl", [_row("a", 1, 0), _row(" a ", 0, 1)], r"o\.jsonl:2 has other outputs than .*o\.jsonl:1"),
        ("o.csv", "text,pos,neg\na,0.5,0.5\nb,0.4,0.7\n", r"o\.csv:3: .* add up to 1\.1"),
        ("o.csv", "text,pos\na,0.5\n", "no column for neg"),
        ("o.csv", "text,pos,neg\na,0.5,\n", r"o\.csv:2: '' was found where a number"),
    ],
)
def test_a_fault_is_named_with_file_and_line(tmp_path: Path, name: str, content: str | list, message: str) -> None:
    with pytest.raises(UserError, match=message):
        _read(tmp_path / name, content)


def test_sums_within_a_thousandth_and_equal_repeats_pass(tmp_path: Path) -> None:
    outputs = _read(tmp_path / "o.jsonl", [_row("a", 0.5, 0.5009), _row("a ", 0.5, 0.5009)])
    assert len(outputs.rows) == 1


def test_missing_texts_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = _read(tmp_path / "o.jsonl", [_row("two words", 0.5, 0.5)])
    train = _data().splits["train"]
    with pytest.raises(UserError, match=r"lacks 1 of 2 texts of the training split .*--allow-missing"):
        outputs.require(train, "the training split", allow_missing=False)
    outputs.require(train, "the training split", allow_missing=True)
    assert "lacks 1 of 2 texts" in capsys.readouterr().out
    with pytest.raises(UserError, match="written in the same way"):
        outputs.require(train[:1], "the training split", allow_missing=True)


def test_layers_are_refused_where_there_are_none() -> None:
    refuse_layers("fast", "tiny", outputs_recipe())
    for name, term in (("tiny", "embedding"), ("distil", "cosine"), ("minilmv2", "relations")):
        with pytest.raises(UserError, match=rf"recipe {name}, .* student albert: .*{term}.*leave --recipe out"):
            refuse_layers(name, "albert", RECIPES[name]())
