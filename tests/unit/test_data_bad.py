"""Bad task data: each fault is one sentence that names file and line, or a note that counts what was repaired."""

import gzip
import io
import json
import math
import random
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from common.errors import UserError
from teacher import hub
from teacher.columns import Asked, find_texts
from teacher.data import load_task
from teacher.decoding import Oddities
from teacher.readers import read_table


def rows(count: int = 40, start: int = 0) -> list[str]:
    return [f"a sentence number {n}\t{('bad', 'good')[n % 2]}" for n in range(start, start + count)]


def write(path: Path, lines: list[str] | bytes) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(lines if isinstance(lines, bytes) else ("\n".join(lines) + "\n").encode())
    return path


def refused(path: Path, message: str, **options: str) -> None:
    with pytest.raises(UserError, match=message):
        load_task(str(path), **options)  # type: ignore[arg-type]


def test_missing_file_and_name(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", rows())
    refused(tmp_path / "trian.tsv", r"trian\.tsv does not exist\. Near it: train\.tsv")
    refused(tmp_path / "no" / "train.tsv", r"does not exist\. Neither does the folder .*no\.")
    write(tmp_path / "zo.csv", rows())
    refused(tmp_path / "missing.csv", r"missing\.csv does not exist\. Its folder holds train\.tsv, zo\.csv\. Give")
    refused(tmp_path / "Train.csv", r"Near it: train\.tsv\. ")
    (tmp_path / "bare").mkdir()
    refused(tmp_path / "bare" / "a.csv", r"Its folder is empty\.")
    refused(Path("sst"), r"unknown task 'sst': did you mean 'sst2'.*no file or folder 'sst' here either.*org/name")


def test_a_part_without_header_beside_a_training_file_with_one(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    write(folder / "train.tsv", ["text\tlabel", *rows()])
    write(folder / "dev.tsv", rows(start=40))
    refused(folder, r"dev\.tsv:1 has no header, and the training file has one: .*\(text, label\)")
    write(folder / "dev.tsv", ["id\ttext", *(row.replace("bad", "1").replace("good", "2") for row in rows())])
    assert any("'label' is missing" in note for note in load_task(str(folder)).notes)


def test_wrong_column(tmp_path: Path) -> None:
    path = write(tmp_path / "d.tsv", ["sentence\tlabel", *rows()])
    refused(path, r"d\.tsv: unknown column 'sentense': did you mean 'sentence'\? Known: label", text_column="sentense")
    refused(path, r"unknown column 'lable': did you mean 'label'", label_column="lable")
    refused(path, r"unknown column 'pair'\. Known: label, sentence", pair_column="pair")


@pytest.mark.parametrize("roles", [("text", "label"), ("text", "pair"), ("pair", "label")])
def test_one_column_for_two_roles(tmp_path: Path, roles: tuple[str, str]) -> None:
    path = write(tmp_path / "d.tsv", ["sentence\tlabel", *rows()])
    named = {f"{role}_column": "sentence" for role in roles}
    refused(path, rf"^--{roles[0]}-column and --{roles[1]}-column are the same column, 'sentence'", **named)


def test_dev_lacks_a_column(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", ["sentence\tlabel", *rows()])
    write(tmp_path / "dev.tsv", ["words\tlabel", *rows()])
    refused(tmp_path, r"dev\.tsv has no column 'sentence': found words, label")


def test_unclear_columns(tmp_path: Path) -> None:
    three = [f"title number {n}\ta longer review {n}\t{n % 2}" for n in range(30)]
    refused(
        write(tmp_path / "a.tsv", ["first\tsecond\tlabel", *three]),
        r"not clear which column is the text.*first .*second",
    )
    unlabelled = [f"title number {n}\ta longer review {n}" for n in range(30)]
    refused(write(tmp_path / "b.tsv", unlabelled), r"no column looks like labels.*Columns: 1 \('title number 0'\), 2")
    refused(write(tmp_path / "c.tsv", ["text\tlabel"]), r"c\.tsv holds a header and no rows")


def test_one_class(tmp_path: Path) -> None:
    path = write(tmp_path / "d.tsv", ["text\tlabel", *(f"a sentence {n}\tgood" for n in range(30))])
    refused(path, r"d\.tsv: every row has the label 'good': two classes or more are needed")
    path = write(tmp_path / "r.tsv", ["text\tscore", *(f"a sentence {n}\t2.5" for n in range(30))])
    refused(path, r"every label is 2\.5")


@pytest.mark.parametrize("part", ["dev", "test"])
def test_label_that_train_lacks(tmp_path: Path, part: str) -> None:
    write(tmp_path / "train.tsv", rows())
    write(tmp_path / f"{part}.tsv", [*rows(5, 100), "a new thing\tugly"])
    refused(tmp_path, rf"{part}\.tsv:6 has the label 'ugly', which train lacks: it has bad, good")


def test_word_among_numbers(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", ["text\tscore", *(f"text number {n}\t{n / 8}" for n in range(40))])
    write(tmp_path / "dev.tsv", ["text\tscore", "text a\t1.5", "text b\tnan"])
    refused(tmp_path, r"dev\.tsv:3 has the label 'nan' where the others are numbers")


@pytest.mark.parametrize("stray", ["nan", "N/A", "inf", ""])
@pytest.mark.parametrize("header", [["text\tscore"], []])
@pytest.mark.parametrize("values", [("1.5", "0.3"), tuple(map(str, range(40)))])
def test_one_word_leaves_numbers_a_regression(
    tmp_path: Path, stray: str, header: list[str], values: Sequence[str]
) -> None:
    lines = [f"text number {n}\t{values[n % len(values)]}" for n in range(239)]
    line = len(header) + 101
    path = write(tmp_path / "d.tsv", [*header, *lines[:100], f"a text\t{stray}", *lines[100:]])
    wanted = f"has the label '{stray}' where the others are numbers: put" if stray else "has no label in column"
    refused(path, rf"d\.tsv:{line} {wanted}")


def test_versions_and_words_are_classes(tmp_path: Path) -> None:
    lines = [f"text number {n}\t{('1.5', '2.0', 'none')[n % 3]}" for n in range(90)]
    assert load_task(str(write(tmp_path / "d.tsv", ["text\tlabel", *lines]))).labels == ("1.5", "2.0", "none")


def test_all_labels_differ(tmp_path: Path) -> None:
    lines = [f"the same text\tname {n}" for n in range(240)]
    path = write(tmp_path / "d.tsv", ["text\tlabel", *lines])
    refused(path, r"d\.tsv has 240 different labels in 240 rows: is 'label' the label column\? .*--label-column")
    refused(
        write(tmp_path / "most.tsv", ["text\tlabel", *lines, "another text\tname 1", "third\tname 2"]),
        r"most\.tsv has 240 different labels in 242 rows",
    )
    write(tmp_path / "parts" / "train.tsv", ["text\tlabel", *lines])
    refused(write(tmp_path / "parts" / "dev.tsv", ["text\tlabel", "a\tb"]).parent, r"train\.tsv has 240 different")


def test_one_example_of_each_class_can_train(tmp_path: Path) -> None:
    for part in ("train", "dev", "test"):
        write(tmp_path / f"{part}.tsv", ["text\tlabel", *(f"{part} text {n}\tclass {n}" for n in range(12))])
    assert len(load_task(str(tmp_path)).labels) == 12


def test_glue_label_that_is_none(tmp_path: Path) -> None:
    write(tmp_path / "sst2" / "train.tsv", ["sentence\tlabel", *(f"a text {n}\t{n % 3}" for n in range(40))])
    refused(tmp_path / "sst2", r"train\.tsv:4 has the label '2', which train lacks")


def test_few_empty_texts_are_left_out(tmp_path: Path) -> None:
    task = load_task(str(write(tmp_path / "d.tsv", ["text\tlabel", *rows(60), " \tgood", "\x00\tbad"])))
    assert sum(map(len, task.splits.values())) == 60
    assert any(note.startswith("2 rows without text left out (first: ") and "d.tsv:62" in note for note in task.notes)


def test_many_empty_texts(tmp_path: Path) -> None:
    path = write(tmp_path / "d.tsv", ["text\tlabel", *rows(), *["\tgood"] * 10])
    refused(path, r"d\.tsv:42 and 9 more rows \(20%\) have no text.*--text-column")
    refused(write(tmp_path / "e.tsv", ["text\tlabel", *rows(12), "\tgood"]), r"e\.tsv:14 has no text: is this")


def test_empty_label(tmp_path: Path) -> None:
    refused(
        write(tmp_path / "d.tsv", ["text\tlabel", *rows(), "some text\t"]), r"d\.tsv:42 has no label in column 'label'"
    )


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    content = (
        "\n".join(rows()).encode() + "\nfür alle é\tgood\n".encode() + b"caf\xe9 \x93good\x94\tgood\n\x81 odd\tbad\n"
    )
    task = load_task(str(write(tmp_path / "d.tsv", b"\xef\xbb\xbf" + content)))
    found = {row.text for split in task.splits.values() for row in split}
    assert {"für alle é", "café “good”", "odd", "a sentence number 0"} <= found
    assert any("2 lines not in UTF-8, read as cp1252 (first: d.tsv:42)" in note for note in task.notes)


def test_utf16(tmp_path: Path) -> None:
    refused(write(tmp_path / "d.tsv", "\n".join(rows()).encode("utf-16")), "d.tsv is UTF-16: save it as UTF-8")


def test_control_characters(tmp_path: Path) -> None:
    task = load_task(str(write(tmp_path / "d.tsv", [*rows(), "a \x00nul\x12 byte don\x92t\tgood"])))
    assert "a nul byte don’t" in {row.text for split in task.splits.values() for row in split}
    assert any(note.startswith("1 line with control characters") and "d.tsv:41" in note for note in task.notes)


@pytest.mark.parametrize("suffix", ["tsv", "csv"])
def test_number_of_fields(tmp_path: Path, suffix: str) -> None:
    separator = {"tsv": "\t", "csv": ","}[suffix]
    good = [row.replace("\t", separator) for row in rows()]
    many = write(tmp_path / f"many.{suffix}", [*good, separator.join(("a text", "good", "more"))])
    refused(many, rf"many\.{suffix}:41 has 3 fields where 2 were expected")
    few = write(tmp_path / f"few.{suffix}", ["text" + separator + "label", "", *good, "a text alone"])
    refused(few, rf"few\.{suffix}:43 has only 1 field where 2 were expected")


def test_line_numbers_after_quoted_lines(tmp_path: Path) -> None:
    quoted = [f'"one\ntwo {n}",{("bad", "good")[n % 2]}' for n in range(20)]
    refused(write(tmp_path / "d.csv", ["text,label", *quoted, "x,y,z"]), r"d\.csv:42 has 3 fields")


def test_empty_file_and_folder(tmp_path: Path) -> None:
    refused(write(tmp_path / "d.tsv", b"\n \n"), r"d\.tsv is empty")
    refused(
        write(tmp_path / "other" / "notes.pdf", b"x").parent, r"other holds no usable data: found notes\.pdf; expected"
    )
    write(tmp_path / "two" / "a.tsv", rows())
    refused(
        write(tmp_path / "two" / "b.tsv", rows()).parent, r"no usable data: found a\.tsv, b\.tsv; expected a train file"
    )
    write(tmp_path / "twice" / "train.csv", rows())
    refused(write(tmp_path / "twice" / "train.tsv", rows()).parent, r"several train files \(train\.csv, train\.tsv\)")


def test_neither_tabs_nor_commas(tmp_path: Path) -> None:
    refused(write(tmp_path / "d.txt", ["just words"] * 20), r"d\.txt:1 has neither tabs nor commas nor json")


def test_broken_json(tmp_path: Path) -> None:
    refused(write(tmp_path / "d.jsonl", ['{"text": "a", "label": 1}', '{"text": ']), r"d\.jsonl:2 is not json")
    expected = r"an object like \{\"text\": \.\.\., \"label\": \.\.\.\} was expected on each line"
    refused(write(tmp_path / "e.jsonl", ["", *["[1, 2]"] * 3]), rf"e\.jsonl:2 is a list: {expected}")
    refused(write(tmp_path / "l.jsonl", ['{"text": "a", "label": 1}', "[1, 2]"]), rf"l\.jsonl:2 is a list: {expected}")
    refused(write(tmp_path / "n.jsonl", ["1"]), rf"n\.jsonl:1 is a number: {expected}")
    refused(write(tmp_path / "g.json", ["[", '{"text": "a"},', '{"text" "b"}]']), r"g\.json:3 is not json \(Expecting")
    missing = ['{"text": "a text", "label": 1}', '{"text": "b text", "label": 0}'] * 10 + ['{"text": "no label"}']
    refused(write(tmp_path / "f.jsonl", missing), r"f\.jsonl:21 has no label")


@pytest.mark.parametrize("value", [{"a": 1}, ["x"]])
@pytest.mark.parametrize("column", ["text", "label"])
def test_nested_json(tmp_path: Path, value: object, column: str) -> None:
    objects = [{"text": f"text {n}", "label": n % 2, "meta": {"n": 1}} for n in range(40)]
    assert load_task(str(write(tmp_path / "d.jsonl", list(map(json.dumps, objects))))).labels == ("0", "1")
    objects[20][column] = value
    path = write(tmp_path / "d.jsonl", list(map(json.dumps, objects)))
    refused(path, rf"d\.jsonl:21 has a list or an object in column '{column}': text or a number was expected")


def test_too_few_rows(tmp_path: Path) -> None:
    refused(
        write(tmp_path / "dup.tsv", rows(2) * 30), r"dup\.tsv has 2 rows with text after removing 58 duplicate rows: "
    )
    refused(write(tmp_path / "d1.tsv", [*rows(6), *rows(1)]), r"6 rows with text after removing 1 duplicate row: at")
    refused(write(tmp_path / "d.tsv", rows(6)), r"d\.tsv has 6 rows with text: at least 10 are needed")


def test_all_of_train_stands_in_dev(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", rows())
    write(tmp_path / "dev.tsv", rows())
    refused(tmp_path, "nothing is left to select")


def test_data_dir(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"^--data-dir is for GLUE tasks only: unknown GLUE task 'mytask'\. Known: cola"
    ):
        load_task("mytask", data_dir=tmp_path)
    mine = write(tmp_path / "mine.csv", rows())
    for task, shown in ((str(mine), str(mine)), ("mine.csv", str(mine)), ("no.csv", "no.csv")):
        with pytest.raises(UserError) as caught:
            load_task(task, data_dir=tmp_path)
        assert str(caught.value) == f"--data-dir is for GLUE tasks only: leave it out and give --task {shown}"
    mine.unlink()
    with pytest.raises(UserError, match=r"holds neither a folder sst2 nor train\.tsv: found other"):
        (tmp_path / "other").mkdir()
        load_task("sst2", data_dir=tmp_path)
    with pytest.raises(UserError, match="is not a folder"):
        load_task("sst2", data_dir=tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["sst2", "org/name"])
def test_no_network(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_resolves", lambda _: False)
    with pytest.raises(UserError, match=rf"cannot load '{name}' from the hub: the hub cannot be reached ") as caught:
        load_task(name)
    told = str(caught.value)
    assert "Without a network use --task PATH" in told and len(told) < 300
    assert told.count("the hub cannot be reached") == 1 and "Offline" not in told and "configuration" not in told


def _zip(name: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(name, "text,label")
    return content.getvalue()


def _tar() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("train.csv"))
    return content.getvalue()


BINARY = {
    "sheet.csv": (_zip("xl/workbook.xml"), "is a binary Excel file, not text: save it as csv"),
    "old.csv": (b"\xd0\xcf\x11\xe0" + bytes(99), "is a binary Office file such as xls, not text: save it as csv"),
    "data.zip": (_zip("train.csv"), "is a zip archive: unpack it"),
    "data.tsv": (b"PAR1 text and label PAR1", "is a parquet file, not text: save it as csv"),
    "data.tar.gz": (gzip.compress(_tar()), "is a tar archive: unpack it"),
    "random.csv": (random.Random(0).randbytes(4000), "is a binary file, not text: save it as csv"),
    "random.jsonl": (random.Random(1).randbytes(4000), "is a binary file, not text: save it as csv"),
}


@pytest.mark.parametrize("name", BINARY)
def test_binary_files(tmp_path: Path, name: str) -> None:
    content, message = BINARY[name]
    refused(write(tmp_path / name, content), f"{name} {message}")


@pytest.mark.parametrize("separator", [",", "\t"])
def test_lines_that_end_in_cr_alone(tmp_path: Path, separator: str) -> None:
    lines = ["text\tlabel", *rows()]
    name = "d.csv" if separator == "," else "d.tsv"
    path = write(tmp_path / name, "".join(f"{line}\r" for line in lines).replace("\t", separator).encode())
    task = load_task(str(path))
    assert sum(map(len, task.splits.values())) == 40
    one = write(tmp_path / f"one-{name}", "".join(f"{line}\n" for line in lines).replace("\t", separator).encode())
    assert load_task(str(one)).splits == task.splits


def test_cr_within_a_field_that_is_not_quoted(tmp_path: Path) -> None:
    lines = ["text,label", *(row.replace("\t", ",") for row in rows())]
    refused(write(tmp_path / "d.csv", [*lines, "a text with\rone,good"]), r"d\.csv:42 has only 1 field")


def test_a_quote_that_is_never_closed_takes_no_rows_along(tmp_path: Path) -> None:
    lines = ["label,text", *(",".join(reversed(row.split("\t"))) for row in rows())]
    lines[20] = lines[20].replace(",", ',"')
    refused(write(tmp_path / "d.csv", lines), r"d\.csv:21 has a quote that is not closed")
    lines[20] += '"'
    assert sum(map(len, load_task(str(write(tmp_path / "d.csv", lines))).splits.values())) == 40
    # The end of the file may lack its line end.
    write(tmp_path / "d.csv", "\n".join([*lines, 'good,"the last ""one"""']).encode())
    assert sum(map(len, load_task(str(tmp_path / "d.csv")).splits.values())) == 41


def test_columns_of_one_name(tmp_path: Path) -> None:
    lines = [f"other {n}\t{row}" for n, row in enumerate(rows())]
    refused(write(tmp_path / "d.tsv", ["text\ttext\tlabel", *lines]), r"d\.tsv has 2 columns 'text': give each a name")
    with pytest.raises(UserError, match="has 2 columns 'text'"):
        find_texts(read_table(tmp_path / "d.tsv", Oddities()), Asked())
    write(tmp_path / "d.tsv", ["note\ttext\tlabel\tnote", *(f"{line}\tx" for line in lines)])
    assert load_task(str(tmp_path / "d.tsv")).splits["train"][0].text.startswith("a sentence")
    lines = [f"a text {n},{n % 2},{n % 3 // 2}" for n in range(40)]
    refused(write(tmp_path / "d.csv", ["text,a,b", *lines]), "--label-column a,a: a column is", label_column="a,a")


def test_nan_in_json_is_no_value(tmp_path: Path) -> None:
    texts = [row.split("\t")[0] for row in rows()]
    objects = [{"text": text, "label": ("bad", "good")[n % 2]} for n, text in enumerate(texts)]
    write(tmp_path / "d.jsonl", [json.dumps(value) for value in [*objects, {"text": math.nan, "label": "good"}]])
    task = load_task(str(tmp_path / "d.jsonl"))
    assert sum(map(len, task.splits.values())) == 40
    assert any("1 row without text left out" in note for note in task.notes)
    objects[5]["label"] = math.nan  # type: ignore[assignment]
    path = write(tmp_path / "d.jsonl", [json.dumps(value) for value in objects])
    refused(path, r"d\.jsonl:6 has no label in column 'label'")


@pytest.mark.parametrize("before", [0, 5])
def test_json_that_is_too_deep(tmp_path: Path, before: int) -> None:
    objects = [json.dumps({"text": row.split("\t")[0], "label": "good"}) for row in rows(before)]
    deep = '{"text": ' + "[" * 100_000 + "]" * 100_000 + "}"
    refused(write(tmp_path / "d.jsonl", [*objects, deep]), rf"d\.jsonl:{before + 1} has lists or objects too deep")


@pytest.mark.parametrize(
    "whole", [{"tokens": ["a"], "tags": ["O"]}, {"question": "who", "context": "he is a", "answers": ["a"]}]
)
def test_json_of_tags_and_questions_that_is_too_deep(tmp_path: Path, whole: dict[str, object]) -> None:
    deep = '{"question": ' + "[" * 100_000 + "]" * 100_000 + "}"
    refused(write(tmp_path / "d.jsonl", [json.dumps(whole), deep]), r"d\.jsonl:2 is not json \(.*recursion")


def test_half_of_a_surrogate_pair_is_replaced(tmp_path: Path) -> None:
    texts = [row.split("\t")[0] for row in rows()]
    objects = [{"text": f"{text} \ud83d", "label": ("bad", "good")[n % 2]} for n, text in enumerate(texts)]
    task = load_task(str(write(tmp_path / "d.jsonl", [json.dumps(value) for value in objects])))
    assert all(row.text.endswith(" \ufffd") for row in task.splits["train"])
    assert any("40 lines with half of a surrogate pair, replaced" in note for note in task.notes)
    tagged = [{"tokens": ["a\ud83d", str(n)], "tags": ["B-X", "O"]} for n in range(40)]
    task = load_task(str(write(tmp_path / "tags.jsonl", [json.dumps(value) for value in tagged])))
    assert all(row.text.startswith("a\ufffd ") for row in task.splits["train"])


def test_tags_with_white_space_of_any_kind(tmp_path: Path) -> None:
    tagged = [{"tokens": ["a", str(n)], "tags": ["B-X\u00a0Y", "O"]} for n in range(40)]
    path = write(tmp_path / "tags.jsonl", [json.dumps(value) for value in tagged])
    refused(path, r"tags\.jsonl:1: words and tags must be texts without spaces")
    spans = [{"text": f"one {n}", "spans": [{"start": 0, "end": 3, "label": "a\u00a0b"}]} for n in range(40)]
    task = load_task(str(write(tmp_path / "spans.jsonl", [json.dumps(value) for value in spans])))
    assert task.labels == ("O", "B-a_b")


PACKED = {
    "tags.jsonl.gz": ("tags", '{{"tokens": ["x", "{0}"], "tags": ["O", "B-X"]}}\n'),
    "tags.conll.gz": ("tags", "w{0} O\nx{0} B-X\n\n"),
    "answers.json.gz": ("questions", '{{"question": "who {0}", "context": "it is {0}", "answers": ["{0}"]}}\n'),
    "choices.csv.gz": ("choices", "who {0},a {0},b {0},{1}\n"),
    "sets.jsonl.gz": ("multilabel", '{{"text": "text {0}", "labels": ["a", "b{1}"]}}\n'),
    "plain.csv.gz": ("classification", "text {0},x,y,{1}\n"),
}


@pytest.mark.parametrize("name", PACKED)
def test_packed_files_are_of_the_kind_that_they_are_unpacked(name: str, tmp_path: Path) -> None:
    kind, row = PACKED[name]
    header = {"choices.csv.gz": "context,option1,option2,label\n", "plain.csv.gz": "text,one,two,label\n"}
    content = header.get(name, "") + "".join(row.format(n, n % 2) for n in range(40))
    path = write(tmp_path / name, gzip.compress(b"\xef\xbb\xbf" + content.encode()))
    assert load_task(str(path)).kind == kind
    refused(write(tmp_path / name, gzip.compress(content.encode())[:-20]), "is not a whole gzip file")
