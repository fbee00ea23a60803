"""Weights of classes in the students' loss on labels: torch's weighted cross entropy, over texts and over words."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.nn import functional
from toy import toy_task
from transformers import BertConfig, BertForSequenceClassification, BertForTokenClassification, BertTokenizerFast

from common.errors import UserError
from distill.changes import ChangeOptions
from distill.config import DistilOptions, RunConfig
from distill.contest import check_recipes
from distill.distiller import Distiller
from distill.runs import settings_key
from distill.stages import Stage
from distill.terms import Link
from teacher.class_weights import balanced, balanced_labels, check_class_weights, class_weights, weighted_loss
from teacher.data import load_task
from teacher.prepare import Prepared, prepare
from teacher.tasks import task_for
from teacher.tasks.tags import IGNORED

Make = Callable[..., BertForSequenceClassification]
STAGE = Stage(
    name="s", description="", teacher="none", data="train", losses={"hard": 1.0}, learning_rate=1e-3, dropout=False
)


def _uneven(tokenizer: BertTokenizerFast) -> Prepared:
    """Nine texts, of which "a" has six, "b" two and "c" one."""
    data = toy_task().data
    rows = data.splits["train"]
    labels = (0, 0, 0, 0, 0, 0, 1, 1, 2)
    uneven = tuple(dataclasses.replace(row, label=label) for row, label in zip(rows, labels, strict=True))
    return prepare(task_for(dataclasses.replace(data, splits=dict.fromkeys(data.splits, uneven))), tokenizer, 16)


def _hard(model: torch.nn.Module, prepared: Prepared, rows: list[int], **options: object) -> tuple[float, ...]:
    """The loss on labels of some rows, and torch's weighted mean with what it divides by."""
    weights = class_weights("balanced", prepared)
    batch = prepared.task.collate(prepared.splits["train"], rows, prepared.pad)
    batch["index"] = torch.tensor(rows)
    stage_model = Distiller(
        model, None, STAGE, prepared.task, projection=torch.nn.Identity(), class_weights=weights, **options
    )
    with torch.no_grad():
        own = float(stage_model.eval()(batch)["hard"])
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
        logits = model(**inputs).logits
    keep = batch["labels"] != IGNORED
    theirs = functional.cross_entropy(logits[keep], batch["labels"][keep], weight=weights)
    return own, float(theirs), float(weights[batch["labels"][keep]].sum() / keep.sum())


def test_a_student_s_loss_is_torch_s_weighted_one(tiny_bert: Make, tiny_tokenizer: BertTokenizerFast) -> None:
    prepared = _uneven(tiny_tokenizer)
    model = tiny_bert(labels=3, seed=3)
    own, theirs, mean = _hard(model, prepared, [0, 1, 6, 8])
    assert mean == pytest.approx((0.5 + 0.5 + 1.5 + 3) / 4)
    assert own == pytest.approx(theirs * mean, rel=1e-5)
    # Over all rows the weights' mean is 1, and both are one number.
    own, theirs, mean = _hard(model, prepared, list(range(9)))
    assert mean == pytest.approx(1)
    assert own == pytest.approx(theirs, rel=1e-5)


def test_rows_without_labels_stay_out(tiny_bert: Make, tiny_tokenizer: BertTokenizerFast) -> None:
    prepared = _uneven(tiny_tokenizer)
    model = tiny_bert(labels=3, seed=3)
    labeled = torch.tensor([True] * 8 + [False])
    assert _hard(model, prepared, [1, 7, 8], labeled=labeled)[0] == pytest.approx(_hard(model, prepared, [1, 7])[0])


def test_tags_are_weighed_by_words(tmp_path: Path, tiny_bert: Make, tiny_tokenizer: BertTokenizerFast) -> None:
    path = tmp_path / "t.jsonl"
    words = ["the", "plot", "actor", "is", "good"]
    rows = [{"tokens": [*words, f"w{n}"], "tags": ["O", "O", "B-PER", "O", "O", "O"]} for n in range(20)]
    path.write_text("\n".join(map(json.dumps, rows)))
    prepared = prepare(task_for(load_task(str(path))), tiny_tokenizer, 7)
    # Seven pieces leave five words of each sentence.
    assert prepared.task.data.labels == ("O", "B-PER")
    found = class_weights("balanced", prepared)
    assert found is not None
    assert found.tolist() == pytest.approx([5 / (2 * 4), 5 / 2])
    model = tiny_bert(model_class=BertForTokenClassification, labels=2, seed=1)
    own, theirs, mean = _hard(model, prepared, [0, 1, 2])
    assert mean == pytest.approx(1)
    assert own == pytest.approx(theirs, rel=1e-5)
    logits, labels = torch.randn(1, 3, 2), torch.full((1, 3), IGNORED)
    assert float(weighted_loss(logits, labels, found)) == 0


def test_either_answer_on_a_label_pulls_alike_however_rare_it_is() -> None:
    labels = torch.zeros(100, 3)
    labels[:10, 0] = 1
    labels[:60, 1] = 1
    weights = balanced_labels(labels.numpy())
    assert weights.tolist() == [pytest.approx([100 / 180, 100 / 80, 1]), pytest.approx([100 / 20, 100 / 120, 1])]
    logits = torch.randn(100, 3)
    each = (
        -functional.logsigmoid(logits) * labels * weights[1]
        - functional.logsigmoid(-logits) * (1 - labels) * weights[0]
    )
    assert float(weighted_loss(logits, labels, weights)) == pytest.approx(float(each.mean()), rel=1e-5)
    flat = torch.zeros(100, 3, requires_grad=True)
    weighted_loss(flat, labels, weights).backward()
    assert flat.grad is not None
    pulls = [float(flat.grad[labels[:, 0] == answer, 0].sum()) for answer in (0, 1)]
    assert pulls[0] == pytest.approx(-pulls[1])


def test_labels_of_a_text_are_weighed(tmp_path: Path, tiny_bert: Make, tiny_tokenizer: BertTokenizerFast) -> None:
    path = tmp_path / "t.jsonl"
    rows = [{"text": f"text {n}", "labels": ["often", "rare"][: n % 3]} for n in range(60)]
    path.write_text("\n".join(map(json.dumps, rows)))
    prepared = prepare(task_for(load_task(str(path), kind="multilabel")), tiny_tokenizer, 16)
    weights = class_weights("balanced", prepared)
    assert weights is not None
    assert weights.shape == (2, len(prepared.task.data.labels))
    batch = prepared.task.collate(prepared.splits["train"], [0, 1, 2], prepared.pad)
    model = tiny_bert(labels=len(prepared.task.data.labels), seed=3)
    link = Link(task=prepared.task, layers=(), projection=torch.nn.Identity(), temperature=1.0, class_weights=weights)
    logits = model(**{name: batch[name] for name in ("input_ids", "attention_mask", "token_type_ids")}).logits.detach()
    each = functional.binary_cross_entropy_with_logits(logits, batch["labels"], reduction="none")
    by_hand = (each * torch.where(batch["labels"] == 1, weights[1], weights[0])).mean()
    assert float(link.label_loss(logits, batch["labels"])) == pytest.approx(float(by_hand), rel=1e-5)


def test_every_class_pulls_alike_whatever_its_share() -> None:
    labels = torch.tensor([0] * 90 + [1] * 10)
    weights = balanced(labels.numpy(), 2)
    logits = torch.zeros(100, 2, requires_grad=True)
    weighted_loss(logits, labels, weights).backward()
    assert logits.grad is not None
    pulls = [float(logits.grad[labels == label, label].sum()) for label in (0, 1)]
    assert pulls[0] == pytest.approx(pulls[1])


def test_only_tasks_with_classes_have_weights() -> None:
    check_class_weights("balanced", toy_task(), option="--class-weights")
    with pytest.raises(UserError, match=r"^--class-weights balanced is for tasks with classes or labels of texts"):
        check_class_weights("balanced", toy_task("regression"), option="--class-weights")


def _notes(**options: object) -> tuple[str, ...]:
    config = RunConfig(
        student=str(options.pop("student", "distil")),
        changes=ChangeOptions(class_weights="balanced"),
        distilling=DistilOptions(**options),
    )
    return check_recipes(config, "classification", BertConfig(num_hidden_layers=4))


def test_whose_loss_has_weights_is_said() -> None:
    assert any(note.startswith("Students and their twins learn from labels") for note in _notes(recipe="distilbert"))
    assert any(note.startswith("Twins alone") for note in _notes(recipe="tinybert"))
    with pytest.raises(UserError, match="--class-weights balanced: no stage learns from labels"):
        _notes(recipe="tinybert", twins=False)


def test_weights_make_another_run() -> None:
    assert settings_key(RunConfig()) != settings_key(RunConfig(changes=ChangeOptions(class_weights="balanced")))
