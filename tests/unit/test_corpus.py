"""Text files, folders and the hub as documents of sentences."""

import errno
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest

from common.errors import UserError
from teacher import documents as layout_rules
from teacher import hub
from teacher.corpus import load_corpus
from teacher.decoding import Oddities, stream_lines
from teacher.documents import layout_of, text_documents
from teacher.sentences import docstring_sentences, line_sentences, split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Mr. Smith met Dr. A. B. Jones. They left.", ["Mr. Smith met Dr. A. B. Jones.", "They left."]),
        (
            "It costs 3.5 dollars, e.g. Today. No. 5 is Fig. 3.",
            ["It costs 3.5 dollars, e.g. Today.", "No. 5 is Fig. 3."],
        ),
        ("He said no. She left.", ["He said no.", "She left."]),
        ("So did I. We ran.", ["So did I.", "We ran."]),
        ('"Stop." "Why?" he asked. "So."', ['"Stop."', '"Why?" he asked.', '"So."']),
        ("Wait... what? e.g. this", ["Wait... what? e.g. this"]),
        ("今天好。明天呢？好！", ["今天好。", "明天呢？", "好！"]),
        ("Paris 1900 . It was <unk> . Then", ["Paris 1900 .", "It was <unk> .", "Then"]),
        ("  \n ", []),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


def test_docstring_sentences_without_code() -> None:
    parameters = "Parameters\n----------\na : int\n    First.\nb : int\n    Second."
    text = f"Add. Really.\n\n{parameters}\n\n>>> f(1)\n2\n\n```py\nx\n```"
    assert docstring_sentences(text) == ["Add.", "Really.", "Parameters", "a : int First.", "b : int Second."]


def documents(text: str) -> list[list[str]]:
    lines = text.split("\n")
    return list(map(line_sentences, text_documents(lines, layout_of(lines))))


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.txt").write_text("One.\n\nTwo.\n")

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    # Not by its permissions: root may read all files.
    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(UserError, match=r"cannot read .*text\.txt: Permission denied"):
        load_corpus(str(tmp_path / "text.txt"))


def test_titles_end_documents() -> None:
    text = " = One = \n\nA b c .\n\n = = Part = = \n\nD e .\n\n = Two = \n\nF = g .\n"
    assert documents(text) == [["A b c .", "D e ."], ["F = g ."]]
    assert documents("Preface here.\nCHAPTER I\nIt began.\nChapter 2. The End\nIt ended.") == [
        ["Preface here."],
        ["It began."],
        ["It ended."],
    ]
    assert documents("# A\n\nx y.\n\n### sub\n\nz.\n# B\nw.") == [["x y.", "z."], ["w."]]


@pytest.mark.parametrize(
    "heading",
    [
        *(
            "Chapter 1",
            " CHAPTER XI.",
            "Chapter ll",
            "BOOK IV: in which they sail",
            "Act I, Scene 2",
            "Volume 2 - The Sea",
        ),
        *("PART II FATHER AND DAUGHTER", "Chapter 2. The End", 'Letter III "Dear Sir"', "CHAPTER VII I MAKE A FAULT"),
    ],
)
def test_lines_that_are_headings(heading: str) -> None:
    assert documents(f"Before\nit.\n{heading}\nAfter\nit.") == [["Before it."], ["After it."]]


@pytest.mark.parametrize(
    "line",
    [
        *("part I did with great vigour", "letter I wrote to her", "act I think", "book did well", "chapter 4"),
        *(
            "Part 2 of the plan",
            "Part I did not like",
            "Act I think",
            "Book  2  is long",
            "Part 1-3 of it",
            "Book Mill",
        ),
        *("Part 2.5 of it", "Letter I'd sent", "# of items sold", "= a sum of two ="),
    ],
)
def test_lines_that_are_text(line: str) -> None:
    text = f"The first\n{line}\nis here\n\nThe second\nis here"
    assert documents(text) == [
        [f"The first {' '.join(line.split())} is here"],
        ["The second is here"],
    ]


def test_blank_lines_end_documents_beside_a_single_heading_among_them() -> None:
    assert documents("One\na.\n\nTwo\nb.\n\nPart II\nThree\nc.\n\nFour\nd.") == [
        ["One a."],
        ["Two b."],
        ["Three c."],
        ["Four d."],
    ]
    assert documents("# A\n\nOne\na.\n\nTwo\nb.") == [["One a.", "Two b."]]


def test_blank_lines_end_documents() -> None:
    assert documents("One a.\nTwo b.\n\nThree c.") == [["One a.", "Two b."], ["Three c."]]
    assert documents("\n\n\nOne a.\n\nTwo b.\n\n\n\nThree c.") == [["One a.", "Two b."], ["Three c."]]
    assert documents("One.\nTwo.") == [["One.", "Two."]]


def test_wrapped_lines_are_joined_and_sentence_lines_are_not() -> None:
    assert documents("The long\nsentence is wrapped\nat each line. And\nhere.") == [
        ["The long sentence is wrapped at each line.", "And here."]
    ]
    assert documents("one line.\nanother line.\nno stop\nlast one.") == [
        ["one line.", "another line.", "no stop", "last one."]
    ]


def test_gzip_bom_crlf_and_odd_bytes(tmp_path: Path) -> None:
    content = "\ufeffFirst é.\r\nNul\x00 byte.\r\n".encode() + b"Don\x92t caf\xe9.\r\n"
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(content))
    corpus = load_corpus(str(tmp_path))
    assert list(corpus) == [["First é.", "Nul byte.", "Don’t café."]]
    assert list(corpus) == list(corpus)
    assert corpus.notes() == [
        "1 line with a byte order mark, removed (first: a.txt.gz:1)",
        "3 lines ending in CR LF, read as LF (first: a.txt.gz:1)",
        "1 line with control characters, removed or read as cp1252 (first: a.txt.gz:2)",
        "1 line not in UTF-8, read as cp1252 (first: a.txt.gz:3)",
    ]


def test_folder_reads_text_only(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("Not this.")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.txt").write_text("Second.")
    (tmp_path / "a.txt").write_text("First.")
    (tmp_path / "c.bin").write_text("Not this.")
    corpus = load_corpus(str(tmp_path))
    assert list(corpus) == [["First."], ["Second."]] and sorted(corpus.sources) == ["a.txt", "sub/b.txt"]
    before = corpus.fingerprint()
    (tmp_path / "a.txt").write_text("Other.")
    assert load_corpus(str(tmp_path)).fingerprint() != before


def test_files_of_one_name_both_count(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text("Text.")
    before = load_corpus(str(tmp_path)).fingerprint()
    (tmp_path / "one" / "a.txt").write_text("Other.")
    assert load_corpus(str(tmp_path)).fingerprint() != before


def test_jsonl(tmp_path: Path) -> None:
    rows = [{"id": 1, "text": "One. Two.\nThree"}, {"text": None}, {"id": 3}, {"text": "A\x00 \ud800b."}]
    lines = "\ufeff" + "".join(json.dumps(row) + "\r\n" for row in rows) + "\n"
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "b.txt").write_text("Plain text.")
    corpus = load_corpus(str(tmp_path))
    assert list(corpus) == [["One.", "Two.", "Three"], ["A \ufffdb."], ["Plain text."]]
    notes = "; ".join(corpus.notes())
    for part in ("2 lines without text in 'text', left out (first: a.jsonl.gz:2)", "1 line with half of a", "control"):
        assert part in notes
    other = load_corpus(str(tmp_path / "a.jsonl.gz"), text_column="id")
    assert other.fingerprint() != load_corpus(str(tmp_path / "a.jsonl.gz")).fingerprint()
    with pytest.raises(UserError, match=r"a\.jsonl\.gz:1 has a value of type int in column 'id'"):
        list(other)


def test_files_called_json_have_rows_too(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"text": text, "url": "u"}) + "\n" for text in ("One. Two.", "Three."))
    name = "c4-train.00000-of-01024.json"
    (tmp_path / name).write_text(rows)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(rows.encode()))
    for source in (tmp_path / name, tmp_path / f"{name}.gz"):
        assert list(load_corpus(str(source))) == [["One.", "Two."], ["Three."]]
    assert len(list(load_corpus(str(tmp_path)))) == 4
    (tmp_path / name).write_text('{\n "text": "One"\n}')
    with pytest.raises(UserError, match=r'json:1 is not json .*: an object like {"text": ...} was expected on each'):
        list(load_corpus(str(tmp_path / name)))


@pytest.mark.parametrize("name", ["rows.csv", "rows.TSV.gz", "page.html", "page.xml.gz"])
def test_tables_and_pages_are_no_text(tmp_path: Path, name: str) -> None:
    content = b"text,label\nOne.,1\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    with pytest.raises(UserError, match=r"corpus .* is a (table|page with tags), no text: .* a jsonl file"):
        load_corpus(str(tmp_path / name))
    (tmp_path / "a.txt").write_text("First.")
    assert list(load_corpus(str(tmp_path))) == [["First."]]


def test_rows_of_json_that_are_called_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "dump.txt.gz").write_bytes(gzip.compress(b'\n{"text": "One."}\n{"text": "Two."}\n'))
    with pytest.raises(UserError, match=r"dump\.txt\.gz is named as text, .* objects of json: name it dump\.jsonl\.gz"):
        list(load_corpus(str(tmp_path / "dump.txt.gz")))
    (tmp_path / "braces.txt").write_text('{braces}\n{"text": 1}\n')
    assert list(load_corpus(str(tmp_path / "braces.txt"))) == [['{braces} {"text": 1}']]


@pytest.mark.parametrize(
    ("content", "column", "message"),
    [
        ('{"text": "a"}\n{"text": ', None, r"rows\.jsonl:2 is not json"),
        ('{"text": "a"}\n' + "[" * 100_000 + "]" * 100_000, None, r"rows\.jsonl:2 is not json \(.*recursion"),
        ('{"text": "a"}\n["b"]', None, r"rows\.jsonl:2 is json but no object"),
        ('{"txt": "a"}', None, r"rows\.jsonl:1 has no text column: found txt. Choose with --text-column"),
        ('{"abstract": "a"}', "abstrct", r"rows\.jsonl:1: unknown column 'abstrct': did you mean 'abstract'"),
        ('{"text": ["a"]}', "text", r"rows\.jsonl:1 has a value of type list in column 'text'"),
        ('{"text": ""}', None, r"no text in rows\.jsonl"),
    ],
)
def test_faults_of_jsonl(tmp_path: Path, content: str, column: str | None, message: str) -> None:
    (tmp_path / "rows.jsonl").write_text(content)
    with pytest.raises(UserError, match=message):
        list(load_corpus(str(tmp_path / "rows.jsonl"), text_column=column))


def test_a_column_of_plain_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Text.")
    for source in (str(tmp_path / "a.txt"), "pydocs"):
        with pytest.raises(UserError, match=r"--text-column body: .* has no columns"):
            load_corpus(source, text_column="body")


def test_a_long_line_is_cut_at_spaces_or_between_characters(tmp_path: Path) -> None:
    content = " ".join(f"word{number}" for number in range(50)) + "\n" + "a好" * 30 + "\n" + "\x92" * 90 + "\nend"
    path = tmp_path / "a.txt"
    path.write_bytes(content.encode("utf-8").replace(b"\xc2\x92", b"\x92"))
    oddities = Oddities()
    lines = list(stream_lines(path, oddities, longest=40))
    assert all(len(line.encode("utf-8")) <= 40 for line in lines if "word" in line or "好" in line)
    assert "".join(lines) == content.replace("\n", "").replace("\x92", "’") and lines[-1] == "end"
    assert oddities.first["longer than 40 bytes, cut at a space"] == "a.txt:1"
    assert oddities.first["not in UTF-8, read as cp1252"] == "a.txt:3"


def test_a_long_document_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_rules, "LONGEST_DOCUMENT", 100)
    lines = [f"Sentence {number}." for number in range(40)]
    (tmp_path / "b.txt").write_text("\n".join(lines))
    cut = list(load_corpus(str(tmp_path / "b.txt")))
    assert len(cut) > 4 and [sentence for document in cut for sentence in document] == lines
    assert all(sum(map(len, document)) <= 100 for document in cut)
    (tmp_path / "c.txt").write_text("\n".join(f"wrapped words {number}" for number in range(40)))
    wrapped = list(load_corpus(str(tmp_path / "c.txt")))
    assert len(wrapped) > 4 and all(len(document) == 1 for document in wrapped)


def test_faults(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'pydoc' does not exist\. Did you mean 'pydocs'\?"):
        load_corpus("pydoc")
    with pytest.raises(UserError, match=r"does not exist\. Near it: text\.txt"):
        (tmp_path / "text.txt").write_text("x")
        load_corpus(str(tmp_path / "txet.txt"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="has no text: found nothing"):
        load_corpus(str(tmp_path / "empty"))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"some words here" * 99)[:-12])
    with pytest.raises(UserError, match="not a whole gzip file"):
        list(load_corpus(str(tmp_path / "cut.gz")))
    (tmp_path / "wide.txt").write_text("words", encoding="utf-16")
    with pytest.raises(UserError, match="is UTF-16"):
        list(load_corpus(str(tmp_path / "wide.txt")))
    (tmp_path / "table.txt").write_bytes(b"PAR1" + bytes(99))
    with pytest.raises(UserError, match=r"table\.txt is a parquet file, not text"):
        list(load_corpus(str(tmp_path / "table.txt")))
    (tmp_path / "blank.txt").write_text("\n \n")
    with pytest.raises(UserError, match="the corpus is empty"):
        list(load_corpus(str(tmp_path / "blank.txt")))


def test_hub(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[Any] = []

    def opened(*where: str | None, **options: Any) -> list[dict[str, str]]:
        asked.append((*where, options))
        return [{"id": "1", "text": "One. Two.\nThree"}, {"id": "2", "text": ""}]

    monkeypatch.setattr(hub, "_resolves", lambda _: True)
    monkeypatch.setattr(hub, "open_dataset", opened)
    fingerprints = []
    for sha in ("1a2b", "3c4d"):
        monkeypatch.setattr(huggingface_hub, "dataset_info", lambda _, sha=sha: SimpleNamespace(sha=sha))
        corpus = load_corpus("hub:org/name/raw")
        assert list(corpus) == [["One.", "Two.", "Three"]]
        assert corpus.sources == {"org/name/raw": sha}
        assert asked.pop() == ("org/name", "raw", {"split": "train", "streaming": True, "revision": sha})
        fingerprints.append(corpus.fingerprint())
    assert fingerprints[0] != fingerprints[1]
    assert capsys.readouterr().out == ""

    def refuse(_: str) -> None:
        raise ConnectionError

    monkeypatch.setattr(huggingface_hub, "dataset_info", refuse)
    assert load_corpus("hub:org/name/raw").sources == {"org/name/raw": "hub"}
    assert asked.pop()[-1]["revision"] is None
    assert "does not say which version of org/name" in capsys.readouterr().out


def test_hub_without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_resolves", lambda _: False)
    with pytest.raises(UserError, match=r"cannot load hub:org/name from the hub .* Without a network give a text file"):
        load_corpus("hub:org/name")


@pytest.mark.parametrize("identifier", ["", "../x", "a//b"])
def test_what_can_be_no_hub_id_is_refused_at_once(identifier: str) -> None:
    with pytest.raises(UserError, match=r"is no id of the hub: expected name or org/name"):
        load_corpus(f"hub:{identifier}")


def test_real_texts(shared_data: Path) -> None:
    def shortest(corpus: Iterator[list[str]]) -> list[list[str]]:
        return [next(corpus) for _ in range(5)]

    wiki = list(load_corpus(str(shared_data / "wikitext2" / "valid.txt")))
    assert len(wiki) == 60 and any("<unk>" in sentence for sentence in wiki[0])
    assert not any(sentence.startswith("= ") for document in wiki for sentence in document)
    novels = shortest(iter(load_corpus(str(shared_data / "novels"))))
    assert all("\ufeff" not in sentence and "\r" not in sentence for document in novels for sentence in document)
