"""Files of text without labels."""

from pathlib import Path

import pytest

from common.errors import UserError
from distill.unlabeled import read_unlabeled
from teacher.data import Example, TaskData


def _data(*, pairs: bool = False) -> TaskData:
    def rows(*texts: str) -> tuple[Example, ...]:
        return tuple(Example(text, "side" if pairs else None, 0) for text in texts)

    return TaskData(
        name="toy",
        kind="classification",
        labels=("a", "b"),
        metric="accuracy",
        origins={},
        fingerprint="0",
        sources={},
        splits={"train": rows("known text"), "select": rows("select me"), "evaluate": rows("held  out")},
    )


def _read(path: Path, content: str, *, pairs: bool = False, **columns: str) -> tuple[list[tuple], list[str]]:
    path.write_text(content, encoding="utf-8")
    examples, notes = read_unlabeled(path, _data(pairs=pairs), **columns)
    return [(example.text, example.pair) for example in examples], notes


def test_a_text_file_has_a_text_a_line(tmp_path: Path) -> None:
    content = "one, two\n\nnaïve \N{HORSE FACE}\tline\none, two\n known  text \nheld out\nselect me\nlast"
    texts, notes = _read(tmp_path / "more.txt", content)
    assert texts == [("one, two", None), ("naïve \N{HORSE FACE}\tline", None), ("last", None)]
    assert notes == [
        "more.txt: 1 text left out, repeated",
        "more.txt: 1 text left out, also in the split 'train'",
        "more.txt: 1 text left out, also in the split 'select'",
        "more.txt: 1 text left out, also in the split 'evaluate'",
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", 'text\nfirst one\n"second, one"\n'),
        ("x.csv", 'id,text,label\n1,first one,a\n2,"second, one",\n'),
        ("x.tsv", "first one\nsecond, one\n"),
        ("x.jsonl", '{"text": "first one", "label": null}\n{"text": "second, one"}\n'),
    ],
)
def test_tables_give_their_text_column(tmp_path: Path, name: str, content: str) -> None:
    assert _read(tmp_path / name, content)[0] == [("first one", None), ("second, one", None)]


def test_columns_can_be_named_and_pairs_stay_pairs(tmp_path: Path) -> None:
    content = "q,a,n\nwho,me,1\nwhat,that,2\n"
    assert _read(tmp_path / "x.csv", content, text_column="a")[0] == [("me", None), ("that", None)]
    found, _ = _read(tmp_path / "x.csv", content, pairs=True, text_column="q", pair_column="a")
    assert found == [("who", "me"), ("what", "that")]


@pytest.mark.parametrize(
    ("name", "content", "pairs", "message"),
    [
        ("x.txt", "a line\n", True, "has single texts, the task toy has pairs"),
        ("x.csv", "premise,hypothesis\nwho knows,not me\n", False, "has pairs of texts, the task toy has single"),
        ("x.txt", "known text\nheld out\n", False, "nothing is left"),
        ("x.txt", "\n\n", False, "empty"),
        ("x.csv", "text,id\none two,1\n ,2\n", False, r"x\.csv:3 has no text"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path: Path, name: str, content: str, pairs: bool, message: str) -> None:
    with pytest.raises(UserError, match=message):
        _read(tmp_path / name, content, pairs=pairs)


def test_a_column_or_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'text'"):
        _read(tmp_path / "x.csv", "text\none two\n", text_column="texd")
    with pytest.raises(UserError, match=r"cannot read .*nowhere\.txt"):
        read_unlabeled(tmp_path / "nowhere.txt", _data())
