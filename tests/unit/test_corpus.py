"""Text files, folders and the hub as documents of sentences."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.errors import UserError
from teacher import hub
from teacher.corpus import load_corpus, text_documents
from teacher.sentences import docstring_sentences, split_sentences


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
    return list(text_documents(text.split("\n"), text.split("\n")))


def test_titles_end_documents() -> None:
    text = " = One = \n\nA b c .\n\n = = Part = = \n\nD e .\n\n = Two = \n\nF = g .\n"
    assert documents(text) == [["A b c .", "D e ."], ["F = g ."]]
    assert documents("Preface here.\nCHAPTER I\nIt began.\nChapter 2. The End\nIt ended.") == [
        ["Preface here."],
        ["It began."],
        ["It ended."],
    ]
    assert documents("# A\n\nx y.\n\n### sub\n\nz.\n# B\nw.") == [["x y.", "z."], ["w."]]


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
    assert len(corpus.notes()) == 2 and all("first: a.txt.gz:" in note for note in corpus.notes())
    assert corpus.notes()[1].startswith("1 line not in UTF-8") and "a.txt.gz:3" in corpus.notes()[1]


def test_folder_reads_text_only(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("Not this.")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.txt").write_text("Second.")
    (tmp_path / "a.txt").write_text("First.")
    (tmp_path / "c.bin").write_text("Not this.")
    corpus = load_corpus(str(tmp_path))
    assert list(corpus) == [["First."], ["Second."]] and sorted(corpus.sources) == ["a.txt", "b.txt"]
    before = corpus.fingerprint()
    (tmp_path / "a.txt").write_text("Other.")
    assert load_corpus(str(tmp_path)).fingerprint() != before


def test_faults(tmp_path: Path) -> None:
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
    (tmp_path / "blank.txt").write_text("\n \n")
    with pytest.raises(UserError, match="the corpus is empty"):
        list(load_corpus(str(tmp_path / "blank.txt")))


def test_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(identifier: str, config: str | None, **options: Any) -> list[dict[str, str]]:
        assert (identifier, config, options) == ("org/name", "raw", {"split": "train", "streaming": True})
        return [{"id": "1", "text": "One. Two.\nThree"}, {"id": "2", "text": ""}]

    monkeypatch.setattr(hub, "open_dataset", opened)
    assert list(load_corpus("hub:org/name/raw")) == [["One.", "Two.", "Three"]]


def test_hub_without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_resolves", lambda _: False)
    with pytest.raises(UserError, match=r"cannot load hub:org/name from the hub .* Without a network give a text file"):
        load_corpus("hub:org/name")


def test_real_texts(shared_data: Path) -> None:
    def shortest(corpus: Iterator[list[str]]) -> list[list[str]]:
        return [next(corpus) for _ in range(5)]

    wiki = list(load_corpus(str(shared_data / "wikitext2" / "valid.txt")))
    assert len(wiki) == 60 and any("<unk>" in sentence for sentence in wiki[0])
    assert not any(sentence.startswith("= ") for document in wiki for sentence in document)
    novels = shortest(iter(load_corpus(str(shared_data / "novels"))))
    assert all("\ufeff" not in sentence and "\r" not in sentence for document in novels for sentence in document)
