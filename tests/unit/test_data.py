"""Task files in every format and layout: columns, labels, splits."""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from common.errors import UserError
from teacher import hub, splits
from teacher.data import TaskData, describe, load_task
from teacher.glue import glue_name
from teacher.labels import natural_order
from teacher.raw import Row

WORDS = ("good", "bad")


def lines(count: int, start: int = 0, *, label_first: bool = False, separator: str = "\t") -> list[str]:
    """Rows "a sentence number 7<tab>good"; every third is bad."""
    pairs = ((f"a sentence number {n}", WORDS[n % 3 == 0]) for n in range(start, start + count))
    return [separator.join((label, text) if label_first else (text, label)) for text, label in pairs]


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes lines to a file of a name and gives the path."""

    def write(name: str, rows: Sequence[str], folder: str = "task") -> Path:
        path = tmp_path / folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(rows) + "\n", encoding="utf-8")
        return path

    return write


Save = Callable[..., Path]


def texts(task: TaskData, split: str) -> list[str]:
    return [row.text for row in task.splits[split]]


@pytest.mark.parametrize("header", [None, "text\tlabel", "Review Text\tClass", "what they say\tmy verdict"])
def test_header_or_none(save: Save, header: str | None) -> None:
    task = load_task(str(save("data.tsv", ([header] if header else []) + lines(100))))
    assert (task.name, task.kind, task.labels, task.metric) == ("data", "classification", ("bad", "good"), "accuracy")
    assert {split: len(rows) for split, rows in task.splits.items()} == {"train": 80, "select": 10, "evaluate": 10}
    assert sorted(text for split in task.splits for text in texts(task, split)) == sorted(
        line.split("\t")[0] for line in lines(100)
    )
    for row in task.splits["train"]:
        assert task.labels[int(row.label)] == WORDS[int(row.text.split()[-1]) % 3 == 0]


def test_label_first_without_header(save: Save) -> None:
    task = load_task(str(save("spam", lines(50, label_first=True))))
    assert task.labels == ("bad", "good") and task.splits["train"][0].text.startswith("a sentence")


def test_csv_with_quoted_lines_and_semicolons(save: Save) -> None:
    rows = [f'"one, two ""{n}""\n three";{WORDS[n % 2]}' for n in range(40)]
    task = load_task(str(save("data.csv", ["text;category", *rows])))
    assert len(task.splits["train"]) == 32 and task.splits["train"][0].text.startswith('one, two "')


def test_tsv_with_stray_and_with_proper_quotes(save: Save) -> None:
    stray = load_task(str(save("stray.tsv", [f'"{line}' for line in lines(20)])))
    assert all(text.startswith('"a sentence') for text in texts(stray, "train"))
    proper = load_task(str(save("proper.tsv", [f'"a ""quoted"" {n}"\t{WORDS[n % 2]}' for n in range(20)])))
    assert all(text.startswith('a "quoted"') for text in texts(proper, "train"))
    mixed = [f'"a{chr(9) if n % 3 else " "}tab {n}"\t{WORDS[n % 2]}' for n in range(20)]
    tabs = load_task(str(save("tabs.tsv", mixed)))
    assert {text[:2] for text in texts(tabs, "train")} == {"a\t", "a "}


@pytest.mark.parametrize("name", ["data.jsonl", "data.json", "list.json"])
def test_json(save: Save, name: str) -> None:
    objects: list[dict[str, Any]] = [
        {"id": n, "sentence1": f"a {n}", "sentence2": f"b {n}", "label": n % 3, "meta": {"x": 1}} for n in range(30)
    ]
    rows = [json.dumps(objects)] if name == "list.json" else [json.dumps(value) for value in objects]
    task = load_task(str(save(name, rows)))
    assert task.labels == ("0", "1", "2")
    assert all(row.pair == row.text.replace("a", "b") for row in task.splits["train"])


def test_integers_stay_and_sort_by_value(save: Save) -> None:
    task = load_task(str(save("d.tsv", ["text\tlabel", *(f"text number {n}\t{n % 12}" for n in range(120))])))
    assert task.labels == tuple(map(str, range(12))) and task.kind == "classification"
    assert sorted(["c10", "c9", "b"], key=natural_order) == ["b", "c9", "c10"]
    # The second of two classes is the one that F1 is of.
    assert sorted(["1", "-1", "0", "-10", "-a"], key=natural_order) == ["-10", "-1", "0", "1", "-a"]
    assert sorted(["1.0", "-1.0"], key=natural_order) == ["-1.0", "1.0"]


@pytest.mark.parametrize("values", [[0.5, 1.0, 2.25], list(range(40))])
def test_regression(save: Save, values: list[float]) -> None:
    rows = [f"text number {n}\t{values[n % len(values)]}" for n in range(200)]
    task = load_task(str(save("d.tsv", ["sentence\tscore", *rows])))
    assert (task.kind, task.labels, task.metric) == ("regression", (), "pearson_spearman")
    assert {row.label for row in task.splits["train"]} <= set(map(float, values))


def test_whole_floats_are_classes(save: Save) -> None:
    assert load_task(str(save("d.tsv", [f"text number {n}\t{n % 2}.0" for n in range(40)]))).labels == ("0.0", "1.0")


def test_named_columns(save: Save) -> None:
    rows = ["title\tbody\tverdict\tsource", *(f"title {n}\tbody text {n}\t{WORDS[n % 2]}\tx{n % 4}" for n in range(40))]
    path = str(save("d.tsv", rows))
    with pytest.raises(UserError, match=r"columns verdict, source all look like labels.*--label-column"):
        load_task(path)
    task = load_task(path, label_column="verdict", text_column="title", pair_column="body")
    assert task.labels == ("bad", "good")
    assert all(row.pair == row.text.replace("title", "body text") for row in task.splits["train"])
    bare = load_task(str(save("e.tsv", rows[1:])), label_column="4", text_column="2")
    assert bare.labels == ("x0", "x1", "x2", "x3") and bare.splits["train"][0].text.startswith("body text")


def test_train_dev_test(save: Save) -> None:
    for name, start in (("train.tsv", 0), ("valid.tsv", 100), ("test.tsv", 200)):
        path = save(name, lines(60, start))
    save("README.txt", ["no data"])
    task = load_task(str(path.parent))
    assert dict(task.origins) == {"train": "train.tsv", "select": "valid.tsv", "evaluate": "test.tsv"}
    assert texts(task, "select")[0].endswith("100") and texts(task, "evaluate")[0].endswith("200")
    assert sorted(task.sources) == ["test.tsv", "train.tsv", "valid.tsv"]


def test_train_and_dev_only(save: Save) -> None:
    save("train.tsv", lines(200))
    task = load_task(str(save("dev.tsv", lines(40, 300)).parent))
    assert texts(task, "evaluate") == [line.split("\t")[0] for line in lines(40, 300)]
    assert len(task.splits["select"]) == 20 and len(task.splits["train"]) == 180
    assert task.origins["select"] == "held out from train.tsv, seed 0"
    shares = [Counter(row.label for row in task.splits[split])[0] / n for split, n in (("select", 20), ("train", 180))]
    assert abs(shares[0] - shares[1]) < 0.05


def test_unlabelled_test_is_not_used(save: Save) -> None:
    save("train.tsv", ["sentence\tlabel", *lines(100)])
    save("dev.tsv", ["sentence\tlabel", *lines(20, 100)])
    task = load_task(str(save("test.tsv", ["index\tsentence", "0\ta text"]).parent))
    assert task.origins["evaluate"] == "dev.tsv" and any("test.tsv has no labels" in note for note in task.notes)


def test_leaks_duplicates_and_conflicts(save: Save) -> None:
    save("train.tsv", [*lines(100), "a  sentence number 200\tgood", "a sentence number 5\tbad"])
    save("dev.tsv", [*lines(20, 300), "a sentence number 201\tgood"])
    task = load_task(str(save("test.tsv", lines(20, 200)).parent))
    assert len(task.splits["train"]) == 101 and len(task.splits["select"]) == 20 and len(task.splits["evaluate"]) == 20
    assert task.notes == (
        "1 row of select removed, since a held-out split has the same text",
        "1 row of train removed, since a held-out split has the same text",
        "1 training row has the text of another row and a different label",
    )


def test_single_file_repeats_go_first(save: Save) -> None:
    task = load_task(str(save("d.tsv", lines(100) + lines(30))))
    assert sum(map(len, task.splits.values())) == 100 and "30 exact duplicates" in task.notes[0]


def test_rows_and_seed(save: Save) -> None:
    path = str(save("d.tsv", lines(300)))
    few = load_task(path, rows=30)
    assert Counter(row.label for row in few.splits["train"]) == {0: 10, 1: 20}
    assert few.fingerprint == load_task(path, rows=30).fingerprint != load_task(path, rows=30, seed=1).fingerprint
    assert set(texts(few, "train")) < set(texts(load_task(path, rows="all"), "train"))
    assert texts(few, "evaluate") == texts(load_task(path), "evaluate")
    assert any("all 240 training rows" in note for note in load_task(path, rows=1000).notes)
    with pytest.raises(UserError, match="less than the 2 classes"):
        load_task(path, rows=1)
    with pytest.raises(UserError, match="a number above 0 or 'all'"):
        load_task(path, rows=0)


def test_single_examples_of_a_class_train(save: Save) -> None:
    task = load_task(str(save("d.tsv", [*lines(60), "a lonely text\todd", "another lonely text\tstrange"])))
    assert task.labels == ("bad", "good", "odd", "strange")
    assert {"a lonely text", "another lonely text"} <= set(texts(task, "train"))
    assert any("2 classes have a single training example (odd, strange)" in note for note in task.notes)
    one = load_task(str(save("one.tsv", [*lines(60), "a lonely text\todd"])))
    assert "1 class has a single training example (odd)" in one.notes


def test_pick_by_class_gives_exact_counts() -> None:
    rows = [Row(str(n), None, "abc"[(n % 10 > 5) + (n % 10 > 8)], "f", n) for n in range(200)]
    for count in (3, 7, 50, 199, 200):
        picked, others = splits.pick_by_class(rows, count, 0, stratify=True)
        assert len(picked) == count and len(others) == 200 - count
    picked, _ = splits.pick_by_class(rows, 50, 0, stratify=True)
    assert Counter(row.label for row in picked) == {"a": 30, "b": 15, "c": 5}


def test_very_long_text(save: Save) -> None:
    long = "word " * 40_000
    for name, separator in (("d.tsv", "\t"), ("d.csv", ",")):
        task = load_task(str(save(name, [f"{long}{n}{separator}{WORDS[n % 2]}" for n in range(20)])))
        assert len(task.splits["train"][0].text) > 200_000


def test_chinese_labels_by_words(save: Save) -> None:
    rows = [f"這間酒店很好，第{n}次\t{('negative', 'positive')[n % 2]}" for n in range(40)]
    save("dev.tsv", rows[30:])
    task = load_task(str(save("train.tsv", rows[:30]).parent))
    assert task.labels == ("negative", "positive") and task.splits["evaluate"][0].text.startswith("這間酒店")


def test_describe(save: Save) -> None:
    told = "\n".join(describe(load_task(str(save("d.tsv", lines(100))))))
    assert "task d: classification of single texts, 2 classes, metric accuracy" in told
    assert "80 rows" in told and "largest class 'good': 52 training rows, 70.0% of evaluate" in told
    numbers = load_task(str(save("r.tsv", [f"text number {n}\t{n % 5 / 4}" for n in range(60)])))
    assert "labels from 0 to 1, mean 0.474" in "\n".join(describe(numbers))


GLUE_FILES = {
    "SST-2": ("sentence\tlabel", "a text {n}\t{i}", ("negative", "positive"), "accuracy"),
    "CoLA": (None, "gj04\t{i}\t\ta text {n}", ("unacceptable", "acceptable"), "matthews"),
    "MRPC": (
        "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        '{i}\t1{n}\t2{n}\ta "text {n}\tb {n}',
        ("not_equivalent", "equivalent"),
        "f1",
    ),
    "RTE": (
        "index\tsentence1\tsentence2\tlabel",
        "{n}\ta {n}\tb {n}\t{w}",
        ("entailment", "not_entailment"),
        "accuracy",
    ),
    "QNLI": (
        "index\tquestion\tsentence\tlabel",
        "{n}\ta {n}?\tb {n}\t{w}",
        ("entailment", "not_entailment"),
        "accuracy",
    ),
    "QQP": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
        "{n}\t1\t2\ta {n}?\tb {n}?\t{i}",
        ("not_duplicate", "duplicate"),
        "f1",
    ),
    "STS-B": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        "{n}\tg\tf\t2012\t1\tnone\tnone\ta {n}\tb {n}\t{i}.500",
        (),
        "pearson_spearman",
    ),
}


@pytest.mark.parametrize("name", GLUE_FILES)
def test_glue_layouts(save: Save, name: str) -> None:
    header, pattern, labels, metric = GLUE_FILES[name]
    rows = [pattern.format(n=n, i=n % 2, w=("entailment", "not_entailment")[n % 2]) for n in range(60)]
    folder = save("train.tsv", [header, *rows[:40]] if header else rows[:40], folder=name).parent
    save("dev.tsv", [header, *rows[40:]] if header else rows[40:], folder=name)
    task = load_task(str(folder))
    assert (task.name, task.labels, task.metric) == (glue_name(name), labels, metric)
    assert len(task.splits["evaluate"]) == 20
    odd = [row for row in task.splits["evaluate"] if int("".join(filter(str.isdigit, row.text))) % 2]
    assert {row.label for row in odd} == {1} if labels else {1.5}
    assert load_task(str(glue_name(name)), data_dir=folder.parent).fingerprint == task.fingerprint
    assert load_task(name, data_dir=folder).fingerprint == task.fingerprint


def test_cola_s_own_test_file_has_no_labels(save: Save) -> None:
    rows = [f"gj04\t{n % 2}\t{'*' if n % 2 == 0 else ''}\ta text {n}" for n in range(60)]
    folder = save("train.tsv", rows[:40], folder="CoLA").parent
    save("dev.tsv", rows[40:], folder="CoLA")
    save("test.tsv", ["index\tsentence", *(f"{n}\tanother text {n}" for n in range(20))], folder="CoLA")
    task = load_task(str(folder))
    assert task.notes == ("test.tsv has no labels ('4' is missing), so it is not used",)
    assert len(task.splits["evaluate"]) == 20 and task.splits["evaluate"][0].text == "a text 40"


def test_named_columns_override_a_glue_layout(save: Save) -> None:
    rows = ["sentence\tlabel\tother", *(f"a text {n}\t{n % 2}\tb text {n}" for n in range(40))]
    task = load_task(str(save("train.tsv", rows, folder="sst2").parent), text_column="other", label_column="label")
    assert task.labels == ("0", "1") and task.splits["train"][0].text.startswith("b text")


@pytest.mark.parametrize(
    ("task", "option"),
    [
        ("pydocs", "data_dir"),
        *itertools.product(("pydocs-pair", "sst2"), ("text_column", "pair_column", "label_column")),
    ],
)
def test_places_of_data_that_is_not_read_are_refused(task: str, option: str, tmp_path: Path) -> None:
    flag = option.replace("_", "-")
    value = {"data_dir": tmp_path}.get(option, "topic")
    with pytest.raises(UserError, match=rf"--{flag} {value}: {task} .*: leave it out, or give your data with --task"):
        load_task(task, **{option: value})  # type: ignore[arg-type]


@pytest.fixture
def on_the_hub(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None]]:
    """A hub with one data set, "nyu-mll/glue" with configuration "sst2", and the list of what was asked for."""
    import datasets

    features = datasets.Features(
        {"sentence": datasets.Value("string"), "label": datasets.ClassLabel(names=["negative", "positive"])}
    )

    def split(start: int, count: int, *, labelled: bool = True) -> datasets.Dataset:
        numbers = range(start, start + count)
        columns = {"sentence": [f"a text {n}" for n in numbers], "label": [n % 2 if labelled else -1 for n in numbers]}
        return datasets.Dataset.from_dict(columns, features=features)

    asked: list[tuple[str, str | None]] = []

    def open_dataset(identifier: str, config: str | None, **options: Any) -> Any:
        asked.append((identifier, config))
        if (identifier, config) != ("nyu-mll/glue", "sst2"):
            raise UserError("no such data set")
        parts = {"train": split(0, 60), "validation": split(60, 20), "test": split(80, 20, labelled=False)}
        return datasets.DatasetDict(parts)

    monkeypatch.setattr(hub, "open_dataset", open_dataset)
    return asked


@pytest.mark.parametrize("name", ["sst2", "nyu-mll/glue/sst2"])
def test_hub(on_the_hub: list[tuple[str, str | None]], name: str) -> None:
    task = load_task(name)
    assert task.name == "sst2" and task.labels == ("negative", "positive") and len(task.splits["evaluate"]) == 20
    assert task.origins["evaluate"] == "validation of the hub" and "test of the hub has no labels" in task.notes[0]
    assert all(row.label == int(row.text.split()[-1]) % 2 for row in task.splits["train"])


def test_hub_labels_that_are_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    columns = {"text": [f"text {n}" for n in range(30)], "grade": [[n % 2] for n in range(30)]}
    data = datasets.DatasetDict({"train": datasets.Dataset.from_dict(columns)})
    monkeypatch.setattr(hub, "open_dataset", lambda *_: data)
    with pytest.raises(UserError, match=r"thing:train:1 has a list or an object in column 'grade'"):
        load_task("some/thing", label_column="grade")


def test_hub_tells_what_the_reading_that_exists_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_dataset(identifier: str, config: str | None) -> Any:
        raise UserError("configuration 'thing' not found." if config else hub.NOT_THERE)

    monkeypatch.setattr(hub, "open_dataset", open_dataset)
    with pytest.raises(UserError, match=r"'some/thing' from the hub: configuration 'thing' not found\. There is no"):
        load_task("some/thing")


def test_hub_tries_name_and_configuration(on_the_hub: list[tuple[str, str | None]]) -> None:
    with pytest.raises(UserError, match=r"cannot load 'some/thing' from the hub: no such data set\. There is no file"):
        load_task("some/thing")
    assert on_the_hub == [("some/thing", None), ("some", "thing")]
