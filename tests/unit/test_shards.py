"""Text to memory-mapped pieces: equal to plain tokenising, kept when cut off, and bounded in memory."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from transformers import BertTokenizerFast

from common.errors import UserError
from teacher import blocks, sample, shard_pool, shards
from teacher.corpus import Corpus, load_corpus
from teacher.pairs import draw_pairs
from teacher.pieces import Pieces
from teacher.pretrain_text import prepare_data
from teacher.sample import draw_texts
from teacher.shards import Shards, tokenise

WORDS = ["the", "a", "good", "bad", "film", "plot", "music", "actor", "great", "story", "value", "list"]


def _write(path: Path, documents: int, seed: int = 0) -> Path:
    rng = random.Random(seed)

    def sentence() -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(1, 9))).capitalize() + "."

    text = "\n\n".join("\n".join(sentence() for _ in range(rng.randint(1, 6))) for _ in range(documents))
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD", 2000)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "distillery"


def _as_lists(pieces: Pieces) -> list[list[list[int]]]:
    """Documents of sentences of pieces."""
    return [
        [
            pieces.ids[pieces.sentences[number] : pieces.sentences[number + 1]].tolist()
            for number in range(pieces.documents[document], pieces.documents[document + 1])
        ]
        for document in range(len(pieces))
    ]


def _plain(corpus: Corpus, tokenizer: BertTokenizerFast) -> list[list[list[int]]]:
    """One sentence at a time, by transformers' own call."""
    encoded = [[tokenizer(text, add_special_tokens=False).input_ids for text in document] for document in corpus]
    return [filled for document in encoded if (filled := [ids for ids in document if ids])]


def _everything(shards: Shards, folder: Path) -> Pieces:
    shards.gather({folder: np.ones(len(shards.lengths()), dtype=bool)})
    return Pieces.load(folder)


@pytest.fixture
def tokenizer_file(tmp_path: Path, tiny_tokenizer: BertTokenizerFast) -> Path:
    tiny_tokenizer.save_pretrained(tmp_path / "tokenizer")
    return tmp_path / "tokenizer" / "tokenizer.json"


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("workers", [1, 2])
def test_equal_to_tokenising_one_by_one(
    tmp_path: Path, tokenizer_file: Path, tiny_tokenizer: BertTokenizerFast, workers: int
) -> None:
    source = tmp_path / "text"
    source.mkdir()
    _write(source / "a.txt", 60)
    (source / "b.txt.gz").write_bytes(gzip.compress(_write(tmp_path / "b", 40, 1).read_bytes().replace(b"\n", b"\r\n")))
    rows = [{"text": "\n".join(document)} for document in load_corpus(str(_write(tmp_path / "c", 40, 2)))]
    (source / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"text": "\u200b"}]))
    corpus = load_corpus(str(source))
    (tmp_path / "shards").mkdir()
    made = tokenise(corpus, tokenizer_file, tmp_path / "shards", workers=workers)
    assert len(made.paths) > 5
    pieces = _everything(made, tmp_path / "pieces")
    assert _as_lists(pieces) == _plain(corpus, tiny_tokenizer)
    assert pieces.ids.dtype == np.uint16 and len(pieces) == 140
    assert made.lengths().tolist() == [sum(map(len, document)) for document in _as_lists(pieces)]
    assert any("ending in CR LF" in note and "b.txt.gz" in note for note in made.notes)
    assert pieces.counts().tolist() == np.bincount(pieces.ids).tolist()


@pytest.mark.usefixtures("small_shards")
def test_a_choice_of_documents(tmp_path: Path, tokenizer_file: Path) -> None:
    (tmp_path / "shards").mkdir()
    made = tokenise(load_corpus(str(_write(tmp_path / "a.txt", 90))), tokenizer_file, tmp_path / "shards", workers=1)
    whole = _as_lists(_everything(made, tmp_path / "whole"))
    mask = np.random.default_rng(0).random(90) < 0.3
    made.gather({tmp_path / "some": mask, tmp_path / "others": ~mask})
    assert _as_lists(Pieces.load(tmp_path / "some")) == [whole[number] for number in np.flatnonzero(mask)]
    assert _as_lists(Pieces.load(tmp_path / "others")) == [whole[number] for number in np.flatnonzero(~mask)]


SCRIPT = """
import sys
from pathlib import Path
from teacher import shards
from teacher.corpus import load_corpus
shards.SHARD = 2000
shards.tokenise(load_corpus(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), workers=2)
"""


def test_killed_it_goes_on_where_it_was(
    tmp_path: Path, tokenizer_file: Path, monkeypatch: pytest.MonkeyPatch, small_shards: None
) -> None:
    text, folder = _write(tmp_path / "a.txt", 4000), tmp_path / "shards"
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(text), str(tokenizer_file), str(folder)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 100
    while len(list(folder.glob("*.npz"))) < 3:
        assert process.poll() is None and time.monotonic() < deadline, "no shard appeared"
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (folder / "shards.json").exists()
    (folder / ".000009.npz.1.tmp").write_bytes(b"half")
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("*.npz")}
    resumed = tokenise(load_corpus(str(text)), tokenizer_file, folder, workers=1)
    assert len(resumed.paths) > len(kept) >= 3
    assert all(path.stat().st_mtime_ns == before for path, before in kept.items())
    assert not list(folder.glob(".*"))
    (tmp_path / "whole").mkdir()
    whole = tokenise(load_corpus(str(text)), tokenizer_file, tmp_path / "whole", workers=1)
    assert [path.read_bytes() for path in resumed.paths] == [path.read_bytes() for path in whole.paths]


class _Endless:
    """Documents made while they are read."""

    def __init__(self, documents: int) -> None:
        self.documents = documents

    def __call__(self, _: object) -> Iterator[str]:
        rng = random.Random(0)
        return ("\n".join(" ".join(rng.choices(WORDS, k=9)) for _ in range(22)) for _ in range(self.documents))


def _corpus(documents: int) -> Corpus:
    return Corpus("made", {"made": str(documents)}, _Endless(documents))


@pytest.mark.usefixtures("cache")
def test_memory_does_not_grow_with_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD", 50_000)
    monkeypatch.setattr(sample, "MOST_SAMPLED", 50_000)
    monkeypatch.setattr(blocks, "MOST_PIECES", 10_000)
    peaks = {}
    for documents in (99, 100, 1000):  # 0.1 MB and 1 MB; the first time imports and tables come in
        tracemalloc.start()
        folder = tmp_path / f"{documents} {len(peaks)}"
        data = prepare_data(_corpus(documents), folder, seed=len(peaks), vocabulary=80, workers=1)
        pairs = draw_pairs(data.learned, length=32, seed=0, folder=folder / "pairs")
        peaks[documents] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(pairs) > 3 * documents
    assert peaks[1000] < 1.25 * peaks[100]


@pytest.mark.usefixtures("small_shards")
def test_later_runs_use_the_same_text(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = load_corpus(str(_write(tmp_path / "a.txt", 300)))
    first = prepare_data(corpus, tmp_path / "first", seed=0, vocabulary=60, workers=1)
    assert len(first.held_out) == max(2, round(0.015 * 300)) and len(first.learned) == 296
    assert "read:" in capsys.readouterr().out
    monkeypatch.setattr(Corpus, "texts", lambda _: pytest.fail("the text was read again"))
    second = prepare_data(corpus, tmp_path / "second", seed=1, vocabulary=60, workers=1, enough=500)
    assert 500 <= len(second.learned.ids) < 600
    assert second.tokenizer.get_vocab() == first.tokenizer.get_vocab()
    assert _as_lists(second.held_out) != _as_lists(first.held_out)
    again = prepare_data(corpus, tmp_path / "again", seed=0, vocabulary=60)
    assert _as_lists(again.held_out) == _as_lists(first.held_out)
    assert _as_lists(prepare_data(corpus, tmp_path / "first", seed=9).learned) == _as_lists(first.learned)
    assert sorted(os.listdir(tmp_path / "first")) == ["held_out", "learned", "text.json", "tokenizer"]
    assert len(list(cache.iterdir())) == 1


@pytest.mark.usefixtures("small_shards", "cache")
def test_another_text_or_tokenizer_is_tokenised_anew(tmp_path: Path, tiny_tokenizer: BertTokenizerFast) -> None:
    corpus = load_corpus(str(_write(tmp_path / "a.txt", 50)))
    small = prepare_data(corpus, tmp_path / "1", seed=0, vocabulary=40, workers=1)
    given = prepare_data(corpus, tmp_path / "2", seed=0, tokenizer=tiny_tokenizer, workers=1)
    assert given.tokenizer.get_vocab() == tiny_tokenizer.get_vocab() != small.tokenizer.get_vocab()
    assert given.tokenizer("good film").input_ids == tiny_tokenizer("good film").input_ids
    assert (
        sum(map(len, _plain(corpus, tiny_tokenizer)))
        == len(given.learned.sentences) + len(given.held_out.sentences) - 2
    )
    _write(tmp_path / "a.txt", 60)
    assert len(prepare_data(load_corpus(str(tmp_path / "a.txt")), tmp_path / "3", seed=0, workers=1).learned) == 58


def test_a_cache_that_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    corpus = load_corpus(str(_write(tmp_path / "a.txt", 20)))
    assert len(prepare_data(corpus, tmp_path / "work" / "data", seed=0, workers=1).learned) == 18
    assert "cannot be written" in capsys.readouterr().out and (tmp_path / "work" / "data-text").is_dir()


@pytest.mark.usefixtures("small_shards")
def test_a_damaged_shard_and_a_dead_process_are_named(
    tmp_path: Path, tokenizer_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = load_corpus(str(_write(tmp_path / "a.txt", 100)))
    (tmp_path / "shards").mkdir()
    made = tokenise(corpus, tokenizer_file, tmp_path / "shards", workers=1)
    made.paths[1].write_bytes(made.paths[1].read_bytes()[:-50])
    with pytest.raises(UserError, match=r"000001\.npz is damaged"):
        made.lengths()
    monkeypatch.setattr(shard_pool.sys, "executable", "/bin/false")
    (tmp_path / "new").mkdir()
    with pytest.raises(UserError, match=r"ended with code 1 .* fewer --workers"):
        tokenise(corpus, tokenizer_file, tmp_path / "new", workers=2)


@pytest.mark.usefixtures("small_shards")
def test_lengths_are_read_without_the_pieces(
    tmp_path: Path, tokenizer_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = load_corpus(str(_write(tmp_path / "a.txt", 100)))
    (tmp_path / "shards").mkdir()
    made = tokenise(corpus, tokenizer_file, tmp_path / "shards", workers=1)
    expected = [len(shards.read_shard(path).ids) for path in made.paths]
    read: list[str] = []
    plain = np.lib.npyio.NpzFile.__getitem__
    monkeypatch.setattr(np.lib.npyio.NpzFile, "__getitem__", lambda file, name: read.append(name) or plain(file, name))
    assert made.lengths().sum() == sum(expected)
    assert set(read) == {"sentences", "documents"}


@pytest.mark.usefixtures("small_shards")
def test_processes_find_libraries_that_are_only_on_the_path(
    tmp_path: Path, tokenizer_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"open({str(tmp_path / 'seen')!r}, 'a').close()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    corpus = load_corpus(str(_write(tmp_path / "a.txt", 100)))
    (tmp_path / "shards").mkdir()
    tokenise(corpus, tokenizer_file, tmp_path / "shards", workers=2)
    assert (tmp_path / "seen").exists()


def test_the_sample_is_the_start_of_a_random_order() -> None:
    texts = [f"{number:03}" * 10 for number in range(500)]
    everything, documents, characters = draw_texts(texts, 10**6)
    assert (documents, characters) == (500, 500 * 30)
    assert sorted(everything) == texts and everything != texts
    some, documents, characters = draw_texts(texts, 900)
    assert (documents, characters) == (500, 500 * 30) and some == everything[:30]
    # The odds of every document are equal: the mean place of those drawn is the middle, give or take.
    assert np.mean([texts.index(text) for text in draw_texts(texts, 6000)[0]]) == pytest.approx(249.5, abs=30)
