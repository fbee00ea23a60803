"""Several labels a text: files, metrics, the linear row, a teacher's probabilities."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import f1_score

from common.errors import UserError
from distill.baseline import tfidf_baseline
from distill.teacher_outputs import read_outputs
from teacher.data import Example, TaskData, _settle_kind, load_task
from teacher.raw import RawTask
from teacher.tasks import task_for
from teacher.tasks.multilabel import MultiLabel

LABELS = ("bad", "good", "of the film")
GIVEN = [["good", "of the film"], ["bad"], [], ["good"]]


def _said(data: TaskData) -> dict[str, tuple[str, ...]]:
    rows = [row for split in data.splits.values() for row in split]
    return {row.text: tuple(data.labels[label] for label in row.label) for row in rows}


def _expected() -> dict[str, tuple[str, ...]]:
    return {f"text number {n}": tuple(sorted(GIVEN[n % 4])) for n in range(24)}


def _written(folder: Path, form: str) -> TaskData:
    """The same rows in one of the ways to write them."""
    rows = [(f"text number {n}", GIVEN[n % 4]) for n in range(24)]
    if form == "lists":
        path = folder / "d.jsonl"
        path.write_text("\n".join(json.dumps({"text": text, "labels": given}) for text, given in rows))
        return load_task(str(path))
    path = folder / "d.tsv"
    if form == "printed":
        path.write_text("\n".join(["text\tlabel", *(f"{text}\t{given}" for text, given in rows)]))
        return load_task(str(path), kind="multilabel")
    if form == "columns":
        lines = ["\t".join([text, *("01"[label in given] for label in LABELS)]) for text, given in rows]
        path.write_text("\n".join(["\t".join(["text", *LABELS]), *lines]))
        return load_task(str(path), label_column=",".join(LABELS))
    path.write_text("\n".join(["text\tlabel", *(f"{text}\t{form.join(given)}" for text, given in rows)]))
    return load_task(str(path), kind="multilabel")


@pytest.mark.parametrize("form", ["lists", "printed", "columns", "|", ";", ","])
def test_every_way_to_write_them_says_the_same(tmp_path: Path, form: str) -> None:
    data = _written(tmp_path, form)
    assert (data.kind, data.metric, data.labels) == ("multilabel", "micro_f1", LABELS)
    assert _said(data) == _expected()


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (["text\ta\tb", "one text\t1\t2"], {"label_column": "a,b"}, r"d.tsv:2 has '2' in the label column 'b'"),
        (["text\ta\tb", "one text\t1\t0"], {"label_column": "a,c"}, "unknown column 'c'"),
        (["text\tlabel", "one text\tx"], {"kind": "multilabel"}, r"the only label is 'x'"),
        (["text\ta\tb", "one text\t1\t0"], {"label_column": "a,b", "kind": "regression"}, r"--kind regression"),
        (["text\tlabel", "one text\t['a' 'b']"], {"kind": "multilabel"}, r"d.tsv:2: a list .* with commas between"),
        (["text\tlabel", "one text\tx"], {"kind": "tags"}, r"unknown --kind 'tags'"),
    ],
)
def test_faults_are_named(tmp_path: Path, lines: list[str], options: dict[str, str], message: str) -> None:
    path = tmp_path / "d.tsv"
    path.write_text("\n".join(lines))
    with pytest.raises(UserError, match=message):
        load_task(str(path), **options)


def test_a_label_that_train_lacks_is_named(tmp_path: Path) -> None:
    rows = [json.dumps({"text": f"text {n}", "labels": ["a", "b"][: n % 3]}) for n in range(12)]
    (tmp_path / "train.jsonl").write_text("\n".join(rows))
    (tmp_path / "test.jsonl").write_text(json.dumps({"text": "other", "labels": ["c d"]}))
    with pytest.raises(UserError, match=r"test.jsonl:1 has the label 'c d', which train lacks: it has a, b"):
        load_task(str(tmp_path))


def test_a_kind_that_is_named_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "d.tsv"
    path.write_text("\n".join(["text\tlabel", *(f"text number {n}\t{n % 3}" for n in range(24))]))
    assert load_task(str(path)).kind == "classification"
    assert load_task(str(path), kind="regression").kind == "regression"
    with pytest.raises(UserError, match="--kind multilabel: d is a classification task"):
        _settle_kind(RawTask(name="d", parts={}, origins={}, sources={}, kind="classification"), "multilabel")


def _task(train: tuple[Example, ...] = ()) -> MultiLabel:
    data = TaskData(
        name="t", kind="multilabel", labels=LABELS, metric="micro_f1", splits={"train": train}, origins={},
        fingerprint="", sources={},
    )  # fmt: skip
    task = task_for(data)
    assert isinstance(task, MultiLabel)
    return task


_SIDES = arrays(np.int64, (7, 3), elements=st.integers(0, 1))


@settings(max_examples=40, deadline=None)
@given(predictions=_SIDES, references=_SIDES)
def test_metrics_are_sklearns(predictions: np.ndarray, references: np.ndarray) -> None:
    found = _task().metrics(predictions, references.astype(np.float32))
    assert found["micro_f1"] == pytest.approx(f1_score(references, predictions, average="micro", zero_division=0))
    assert found["macro_f1"] == pytest.approx(f1_score(references, predictions, average="macro", zero_division=0))
    assert found["subset_accuracy"] == np.mean(
        [a.tolist() == b.tolist() for a, b in zip(predictions, references, strict=True)]
    )


@settings(max_examples=20, deadline=None)
@given(references=_SIDES)
def test_the_constant_answer_is_the_best_there_is(references: np.ndarray) -> None:
    task = _task(tuple(Example("x", None, tuple(np.flatnonzero(row).tolist())) for row in references))
    answers = [np.tile([(n >> bit) & 1 for bit in range(3)], (7, 1)) for n in range(8)]
    best = max(task.metrics(answer, references)["micro_f1"] for answer in answers)
    assert task.metrics(task.constant_predictions(references), references)["micro_f1"] == pytest.approx(best)


def test_loss_is_the_mean_of_each_labels() -> None:
    logits, labels = torch.randn(4, 3), torch.tensor([[1.0, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]])
    expected = -torch.where(labels > 0, logits.sigmoid(), 1 - logits.sigmoid()).log().mean()
    torch.testing.assert_close(_task().loss(logits, labels), expected)


def test_linear_row_of_several_labels() -> None:
    texts = [f"{a} {b}" for a in ("red", "green") for b in ("hot", "cold")] * 5
    labels = np.array([["red" in text, "hot" in text, True] for text in texts], dtype=np.float32)
    found = tfidf_baseline(texts, None, labels, texts, None, kind="multilabel", seed=0)
    assert found.shape == (20, 3) and (found == labels).all()


def test_probabilities_stand_alone(tmp_path: Path) -> None:
    data = _written(tmp_path, "lists")
    path = tmp_path / "o.jsonl"
    numbers = {"bad": 0.9, "good": 0.8, "of the film": 0.0}
    path.write_text(json.dumps({"text": "text number 0", "probabilities": numbers}))
    logits = read_outputs(path, data).logits([Example("text number 0", None, ())])[0]
    np.testing.assert_allclose(1 / (1 + np.exp(-logits)), [0.9, 0.8, 0.0], atol=1e-5)
    path.write_text(json.dumps({"text": "text number 0", "probabilities": numbers | {"bad": 1.2}}))
    with pytest.raises(UserError, match="between 0 and 1"):
        read_outputs(path, data)
