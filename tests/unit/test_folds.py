"""Cross-validation: how rows are dealt out, what is trained on which, and what comes of the scores."""

import dataclasses
import json
import statistics
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from toy import toy_task
from transformers import BertModel, BertTokenizerFast

from common.errors import UserError
from teacher.cross_validation import Fold, cross_validated, scores, summary_lines
from teacher.data import Example, TaskData, load_task
from teacher.folds import all_rows, final_data, fold_data
from teacher.options import FinetuneOptions
from teacher.prepare import predict_logits
from teacher.ready import Teacher, ready_teacher
from teacher.splits import same
from teacher.tasks import task_for

WORDS = ["good", "bad", "film", "play", "great", "poor", "story", "plot", "music", "very", "boring", "funny", "actor"]


def _data(kind: str = "classification", rows: int = 60) -> TaskData:
    """Half of the rows are of class 0; every third text stands there twice, the second time with more white space."""
    made = []
    for index in range(rows):
        twin = index % 3 == 2
        number = index - twin
        text = f"{WORDS[number % 13]} {WORDS[(number * 5) % 13]} {number}"
        made.append(Example(text.replace(" ", "  ") if twin else text, None, (0, 1, 0, 2)[number % 4]))
    held = tuple(Example(f"held {index}", None, index % 3) for index in range(6))
    splits = {"train": tuple(made[:-10]), "select": tuple(made[-10:]), "evaluate": held}
    origins = dict.fromkeys(splits, "a file")
    return dataclasses.replace(toy_task(kind).data, splits=splits, origins=origins)


def test_each_row_is_evaluated_once_and_learned_from_where_it_does_not_decide() -> None:
    data = _data()
    folds = fold_data(data, 5, seed=0)
    assert sorted(map(repr, (row for fold in folds for row in fold.splits["evaluate"]))) == sorted(
        map(repr, all_rows(data))
    )
    for fold, after in zip(folds, folds[1:] + folds[:1], strict=True):
        assert fold.splits["select"] == after.splits["evaluate"]
        assert sum(map(len, fold.splits.values())) == 60
    assert len({fold.fingerprint for fold in [*folds, final_data(data), data]}) == 7


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_more_folds_than_any_class_has_rows(kind: str) -> None:
    rows = tuple(Example(f"text {number}", None, number % 3) for number in range(12))
    task = toy_task(kind).data
    data = dataclasses.replace(task, splits={"train": rows[:9], "select": rows[9:], "evaluate": rows[:1]})
    folds = fold_data(dataclasses.replace(data, origins=dict.fromkeys(data.splits, "a file")), 6, seed=0)
    assert [len(fold.splits["evaluate"]) for fold in folds] == [2] * 6


def test_equal_texts_are_in_one_part_and_classes_are_even() -> None:
    for fold in fold_data(_data(), 5, seed=0):
        parts = [{same(row.text, row.pair) for row in rows} for rows in fold.splits.values()]
        assert not parts[0] & parts[1] | parts[0] & parts[2] | parts[1] & parts[2]
        labels = Counter(row.label for row in fold.splits["evaluate"])
        assert 4 <= labels[0] <= 8  # of 12 rows, where half is of this class
        assert set(labels) == {0, 1, 2}


def test_numbers_are_dealt_out_by_their_size() -> None:
    rows = tuple(Example(f"text {index}", None, float(index)) for index in range(50))
    data = dataclasses.replace(_data("regression"), splits={"train": rows[:40], "select": rows[40:], "evaluate": rows})
    means = [statistics.fmean(row.label for row in fold.splits["evaluate"]) for fold in fold_data(data, 5, seed=0)]
    assert all(abs(mean - 24.5) < 5 for mean in means)


def test_tags_and_several_labels_are_dealt_out(tmp_path: Path) -> None:
    words = ["Ada", "is", "here"]
    tagged = [{"tokens": [*words[: 1 + index % 3], str(index)], "tags": ["B-X", "O", "O", "O"]} for index in range(40)]
    for row in tagged:
        row["tags"] = row["tags"][: len(row["tokens"])]
    several = [{"text": f"text {index}", "labels": ["a", "b", "c"][: index % 4]} for index in range(40)]
    for name, rows in (("tags", tagged), ("multilabel", several)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        data = load_task(str(path))
        assert data.kind == name
        folds = fold_data(data, 3, seed=0)
        assert sum(len(fold.splits["evaluate"]) for fold in folds) == len(all_rows(data))


def test_rows_about_one_thing_are_in_one_fold() -> None:
    data = _data()
    splits = {
        split: tuple(dataclasses.replace(row, group=row.text.split()[0]) for row in rows)
        for split, rows in data.splits.items()
    }
    grouped = dataclasses.replace(data, splits=splits)
    for fold in fold_data(grouped, 4, seed=0):
        parts = [{row.group for row in rows} for rows in fold.splits.values()]
        assert not parts[0] & parts[1] | parts[0] & parts[2] | parts[1] & parts[2]
    with pytest.raises(UserError, match="--folds 20: expected 3 to 13, the number of groups of rows about one thing"):
        fold_data(grouped, 20, seed=0)


def test_the_seed_deals_out() -> None:
    first, again, other = (fold_data(_data(), 4, seed)[0].splits for seed in (0, 0, 1))
    assert first == again != other


@pytest.mark.parametrize("folds", [2, 1000])
def test_folds_that_cannot_be_made_are_refused(folds: int) -> None:
    with pytest.raises(UserError, match=rf"--folds {folds}: expected 3 to 40"):
        fold_data(_data(), folds, seed=0)


def test_mean_and_deviation_are_over_the_folds() -> None:
    results = [Fold(n=10, metrics={"accuracy": value}, epochs=1.0) for value in (0.5, 0.6, 0.7)]
    found = scores(results)
    assert found["mean"]["accuracy"] == pytest.approx(0.6)
    assert found["deviation"]["accuracy"] == pytest.approx(0.1)
    assert summary_lines(results) == ["3 folds, n = 30: accuracy 0.6000, deviation 0.1000"]


def test_the_folds_are_trained_and_then_a_model_of_all_rows(
    tiny_bert: Callable[..., BertModel], tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    encoder = tmp_path / "encoder"
    tiny_bert(model_class=BertModel).save_pretrained(encoder)
    tiny_tokenizer.save_pretrained(encoder)
    trained: list[tuple[Path, int, FinetuneOptions]] = []

    def fit(data: TaskData, options: FinetuneOptions, folder: Path) -> Teacher:
        trained.append((folder, len(data.splits["train"]), options))
        return ready_teacher(str(encoder), task_for(data), options, folder, max_length=32, precision="fp32")

    options = FinetuneOptions(teacher_epochs=3, teacher_learning_rate=3e-3, teacher_patience=2)
    run = partial(cross_validated, _data(), options, 3, 0, fit=fit, out=tmp_path / "out")
    teacher = run()
    assert [folder.name for folder, _, _ in trained] == ["fold-1", "fold-2", "fold-3", "out"]
    assert trained[-1][1] == 60
    found = json.loads((tmp_path / "out-folds" / "folds.json").read_text())
    assert [fold["n"] for fold in found["folds"]] == [20, 20, 20]
    epochs = statistics.fmean(fold["epochs"] for fold in found["folds"])
    assert {fold["epochs"] for fold in found["folds"]} <= {1.0, 2.0, 3.0}
    assert trained[-1][2] == dataclasses.replace(options, teacher_epochs=epochs, teacher_patience=None)
    assert teacher.outcome is not None
    assert teacher.outcome.selected_step is None
    weights = (tmp_path / "out" / "model" / "model.safetensors").read_bytes()
    assert predict_logits(teacher.model, teacher.prepared, "evaluate").shape == (6, 3)
    before = (tmp_path / "out" / "teacher.json").read_text()
    run()
    assert (tmp_path / "out" / "model" / "model.safetensors").read_bytes() == weights
    assert (tmp_path / "out" / "teacher.json").read_text() == before


def test_what_is_fine_tuned_already_cannot_be_validated(
    tiny_bert: Callable[..., BertModel], tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    names = {"id2label": {0: "a", 1: "b", 2: "c"}, "label2id": {"a": 0, "b": 1, "c": 2}}
    tiny_bert(**names).save_pretrained(tmp_path / "done")
    tiny_tokenizer.save_pretrained(tmp_path / "done")

    def fit(data: TaskData, options: FinetuneOptions, folder: Path) -> Teacher:
        done = str(tmp_path / "done")
        return ready_teacher(done, task_for(data), options, folder, max_length=32, precision="fp32")

    with pytest.raises(UserError, match="--folds: the model is fine-tuned"):
        cross_validated(_data(), FinetuneOptions(), 3, 0, fit=fit, out=tmp_path / "out")
