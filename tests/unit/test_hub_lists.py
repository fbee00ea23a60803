"""Data sets of the hub with lists in their rows: tags, sets of labels, answers, choices; labels by name."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value

from common.errors import UserError
from teacher import hub
from teacher.data import TaskData, load_task

Publish = Callable[..., None]
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Puts splits where the hub's "org/thing" is looked for: written by the library, and read by it again."""

    def put(features: Features, **splits: Mapping[str, Sequence[Any]]) -> None:
        made = {name: Dataset.from_dict(dict(columns), features=features) for name, columns in splits.items()}
        DatasetDict(made).save_to_disk(str(tmp_path / "thing"))

    def load(identifier: str, config: str | None, **options: Any) -> Any:
        assert (identifier, config) in (("org/thing", None), ("thing", None))
        return datasets.load_from_disk(str(tmp_path / "thing"))

    monkeypatch.setattr(hub, "open_dataset", load)
    return put


def _conll(count: int, first: int = 0) -> dict[str, Sequence[Any]]:
    numbers = range(first, first + count)
    return {
        "id": [str(number) for number in numbers],
        "tokens": [["Ada", "Lovelace", "saw", "Rome", f"in{number}"] for number in numbers],
        "pos_tags": [[0, 0, 1, 0, 1] for _ in numbers],
        "ner_tags": [[1, 2, 0, 3, 0] for _ in numbers],
    }


CONLL = Features(
    {
        "id": Value("string"),
        "tokens": List(Value("string")),
        "pos_tags": List(ClassLabel(names=["NNP", "VBD"])),
        "ner_tags": List(ClassLabel(names=TAGS)),
    }
)


def _tags(task: TaskData, split: str = "train") -> list[str]:
    return [task.labels[tag] for tag in task.splits[split][0].label]


@pytest.mark.parametrize("name", ["org/thing", "hub:org/thing", "hub:thing"])
def test_tags_have_the_names_of_the_features(publish: Publish, name: str) -> None:
    publish(CONLL, train=_conll(30), validation=_conll(10, 30), test=_conll(10, 40))
    task = load_task(name)
    assert (task.name, task.kind, task.metric) == ("thing", "tags", "entity_f1")
    # Of I-LOC no training row has any.
    assert set(task.labels) == {"O", "B-PER", "I-PER", "B-LOC"}
    assert _tags(task) == ["B-PER", "I-PER", "O", "B-LOC", "O"]
    row = task.splits["train"][0]
    assert [row.text[start:end] for start, end in row.detail][:3] == ["Ada", "Lovelace", "saw"]
    assert {split: len(rows) for split, rows in task.splits.items()} == {"train": 30, "select": 10, "evaluate": 10}
    assert task.origins["evaluate"] == "test of the hub"
    assert set(task.sources) == {"train", "validation", "test"}


def test_another_column_of_tags_may_be_named(publish: Publish) -> None:
    publish(CONLL, train=_conll(30))
    task = load_task("org/thing", label_column="pos_tags")
    assert (task.labels, task.metric) == (("NNP", "VBD"), "accuracy")
    assert _tags(task) == ["NNP", "NNP", "VBD", "NNP", "VBD"]
    with pytest.raises(UserError, match="leave --text-column, --pair-column, --label-column out"):
        load_task("org/thing", label_column="none")


def test_a_split_without_tags_is_left_out(publish: Publish) -> None:
    bare = _conll(10, 30) | {"ner_tags": [[-1] * 5] * 10, "pos_tags": [[-1] * 5] * 10}
    publish(CONLL, train=_conll(30), validation=_conll(10, 50), test=bare)
    task = load_task("org/thing")
    assert "test of the hub has no labels, so it is not used" in task.notes
    assert all(len(rows) for rows in task.splits.values())


def test_faults_are_named_by_split_and_row(publish: Publish) -> None:
    broken = _conll(30)
    broken["tokens"][7].append("more")
    publish(CONLL, train=broken)
    with pytest.raises(UserError, match=r"^thing:train:8 has 6 words and 5 tags"):
        load_task("org/thing")


def test_numbers_of_tags_without_names_are_refused(publish: Publish) -> None:
    features = Features({"tokens": List(Value("string")), "tags": List(Value("int32"))})
    publish(features, train={"tokens": _conll(20)["tokens"], "tags": _conll(20)["ner_tags"]})
    with pytest.raises(UserError, match=r"thing:train:1: words and tags must be texts .* have no names here"):
        load_task("org/thing")


def test_sets_of_labels_have_names(publish: Publish) -> None:
    features = Features(
        {"text": Value("string"), "labels": List(ClassLabel(names=["joy", "anger", "fear"])), "id": Value("string")}
    )

    def split(count: int, first: int) -> dict[str, Sequence[Any]]:
        numbers = range(first, first + count)
        sets: list[list[int]] = [[0], [1, 2], [], [2]]
        return {
            "text": [f"a text {number}" for number in numbers],
            "labels": [sets[number % 4] for number in numbers],
            "id": [str(number) for number in numbers],
        }

    publish(features, train=split(40, 0), validation=split(12, 40), test=split(12, 60) | {"labels": [[]] * 12})
    task = load_task("org/thing")
    assert (task.kind, set(task.labels)) == ("multilabel", {"joy", "anger", "fear"})
    for row in task.splits["train"]:
        names = {task.labels[label] for label in row.label}
        assert names == [{"joy"}, {"anger", "fear"}, set(), {"fear"}][int(row.text.split()[-1]) % 4]
    assert "test of the hub has no labels, so it is not used" in task.notes


def test_columns_of_yes_and_no_are_sets_of_labels(publish: Publish) -> None:
    features = Features({"text": Value("string"), "rude": Value("int64"), "mad": Value("bool")})
    columns = {
        "text": [f"a text {number}" for number in range(40)],
        "rude": [number % 2 for number in range(40)],
        "mad": [number % 3 == 0 for number in range(40)],
    }
    publish(features, train=columns)
    task = load_task("org/thing", label_column="rude,mad")
    assert (task.kind, task.labels) == ("multilabel", ("rude", "mad"))
    for row in task.splits["train"]:
        number = int(row.text.split()[-1])
        assert row.label == tuple(place for place, given in enumerate((number % 2, number % 3 == 0)) if given)


def test_questions_with_answers(publish: Publish) -> None:
    features = Features(
        {
            "id": Value("string"),
            "title": Value("string"),
            "context": Value("string"),
            "question": Value("string"),
            "answers": {"text": List(Value("string")), "answer_start": List(Value("int32"))},
        }
    )
    numbers = range(40)
    columns = {
        "id": [str(number) for number in numbers],
        "title": [f"article {number // 4}" for number in numbers],
        "context": [f"It was written by Ada in 18{number:02}." for number in numbers],
        "question": [f"who wrote {number}" for number in numbers],
        "answers": [{"text": ["Ada"], "answer_start": [18]} for _ in numbers],
    }
    publish(features, train=columns)
    task = load_task("org/thing")
    assert task.kind == "questions"
    assert all(row.detail.answers[0].text == "Ada" for row in task.splits["train"])


def test_choices_with_the_name_of_the_right_one(publish: Publish) -> None:
    features = Features(
        {
            "sent1": Value("string"),
            "ending0": Value("string"),
            "ending1": Value("string"),
            "label": ClassLabel(names=["0", "1"]),
        }
    )

    def split(count: int, first: int, *, right: bool = True) -> dict[str, Sequence[Any]]:
        numbers = range(first, first + count)
        return {
            "sent1": [f"She opens door {number}." for number in numbers],
            "ending0": [f"It creaks {number}." for number in numbers],
            "ending1": [f"It sings {number}." for number in numbers],
            "label": [number % 2 if right else -1 for number in numbers],
        }

    publish(features, train=split(40, 0), test=split(10, 40, right=False))
    task = load_task("org/thing")
    assert task.kind == "choices"
    assert all(row.label == int(row.text.split()[-1].rstrip(".")) % 2 for row in task.splits["train"])
    assert "test of the hub has no labels, so it is not used" in task.notes


def test_a_text_and_a_label_are_read_as_ever(publish: Publish) -> None:
    features = Features(
        {"text": Value("string"), "label": ClassLabel(names=["bad", "good"]), "tokens": List(Value("string"))}
    )
    columns = {
        "text": [f"a text {number}" for number in range(40)],
        "label": [number % 2 for number in range(40)],
        "tokens": [["a"]] * 40,
    }
    publish(features, train=columns)
    task = load_task("org/thing")
    assert (task.kind, task.labels) == ("classification", ("bad", "good"))


def test_rows_whose_class_is_none_are_left_out(publish: Publish) -> None:
    features = Features({"text": Value("string"), "label": ClassLabel(names=["bad", "good"])})
    labels = [None if number == 3 else -1 if number % 10 == 0 else number % 2 for number in range(60)]
    publish(features, train={"text": [f"a text {number}" for number in range(60)], "label": labels})
    task = load_task("org/thing")
    assert (task.kind, task.labels) == ("classification", ("bad", "good"))
    assert sum(map(len, task.splits.values())) == 53
    assert all(row.label == int(row.text.split()[-1]) % 2 for row in task.splits["train"])
    assert "7 rows of train without a label left out" in task.notes
