"""Bad task data: each fault is one sentence that names file and line, or a note that counts what was repaired."""

from pathlib import Path

import pytest

from common.errors import UserError
from teacher import hub
from teacher.data import load_task


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
    refused(Path("sst"), r"unknown task 'sst': did you mean 'sst2'.*no file or folder 'sst' here either.*org/name")


def test_wrong_column(tmp_path: Path) -> None:
    path = write(tmp_path / "d.tsv", ["sentence\tlabel", *rows()])
    refused(path, r"d\.tsv: unknown column 'sentense': did you mean 'sentence'\? Known: label", text_column="sentense")
    refused(path, r"unknown column 'lable': did you mean 'label'", label_column="lable")
    refused(path, r"unknown column 'pair'", pair_column="pair")


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
    assert any("2 lines that are not UTF-8, read as cp1252 (first: d.tsv:42)" in note for note in task.notes)


def test_utf16(tmp_path: Path) -> None:
    refused(write(tmp_path / "d.tsv", "\n".join(rows()).encode("utf-16")), "d.tsv is UTF-16: save it as UTF-8")


def test_control_characters(tmp_path: Path) -> None:
    task = load_task(str(write(tmp_path / "d.tsv", [*rows(), "a \x00nul\x12 byte don\x92t\tgood"])))
    assert "a nul byte don’t" in {row.text for split in task.splits.values() for row in split}
    assert any(note.startswith("1 lines with control characters") and "d.tsv:41" in note for note in task.notes)


@pytest.mark.parametrize("suffix", ["tsv", "csv"])
def test_number_of_fields(tmp_path: Path, suffix: str) -> None:
    separator = {"tsv": "\t", "csv": ","}[suffix]
    good = [row.replace("\t", separator) for row in rows()]
    many = write(tmp_path / f"many.{suffix}", [*good, separator.join(("a text", "good", "more"))])
    refused(many, rf"many\.{suffix}:41 has 3 fields where 2 were expected")
    few = write(tmp_path / f"few.{suffix}", ["text" + separator + "label", "", *good, "a text alone"])
    refused(few, rf"few\.{suffix}:43 has only 1 fields where 2 were expected")


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
    refused(write(tmp_path / "e.jsonl", ["[1, 2]"] * 3), r"e\.jsonl:1 is ")
    missing = ['{"text": "a text", "label": 1}', '{"text": "b text", "label": 0}'] * 10 + ['{"text": "no label"}']
    refused(write(tmp_path / "f.jsonl", missing), r"f\.jsonl:21 has no label")


def test_too_few_rows(tmp_path: Path) -> None:
    refused(write(tmp_path / "d.tsv", rows(6)), r"d\.tsv has 6 rows with text: at least 10 are needed")


def test_all_of_train_stands_in_dev(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", rows())
    write(tmp_path / "dev.tsv", rows())
    refused(tmp_path, "nothing is left to select")


def test_data_dir(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--data-dir goes with a GLUE task"):
        load_task("mytask", data_dir=tmp_path)
    with pytest.raises(UserError, match=r"holds neither a folder sst2 nor train\.tsv: found other"):
        (tmp_path / "other").mkdir()
        load_task("sst2", data_dir=tmp_path)
    with pytest.raises(UserError, match="is not a folder"):
        load_task("sst2", data_dir=tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["sst2", "org/name"])
def test_no_network(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_resolves", lambda _: False)
    with pytest.raises(UserError, match=r"cannot load from the hub .* Without a network use --task PATH") as caught:
        load_task(name)
    assert len(str(caught.value)) < 400
