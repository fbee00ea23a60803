"""The built-in data set: rules on a small folder of made-up packages, and one look at a real package."""

import json
from pathlib import Path

import pytest

from common.errors import UserError
from teacher import docstrings, extraction, paragraphs, pydocs
from teacher.data import load_task
from teacher.docstrings import Package
from teacher.sentences import docstring_sentences

SHARED = "This very sentence stands in both of the libraries"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> list[Package]:
    """Two packages, alpha and beta: 30 modules each with three paragraphs and a pair."""
    site = tmp_path_factory.mktemp("site")
    for name, thing in (("alpha", "tensor"), ("beta", "table")):
        for number in range(30):
            word = "".join(chr(97 + int(digit)) for digit in f"{number:02}")
            text = (
                f'"""Summary {word} of one {thing} in some module.\n\n'
                f"Body {word} says what any {thing} is good for.\n\n"
                f'>>> not prose but code as {thing}\n\n{SHARED}.\n"""\n'
                f"raise RuntimeError('imported')\n"
            )
            write(site / name / f"m{number}.py", text)
        write(site / name / "tests" / "test_it.py", '"""Words of a test that nobody should ever see."""')
        write(site / name / "broken.py", '"""Words of a broken file with enough words."""\ndef (:')
        (site / f"{name}-1.5.dist-info").mkdir()
        write(site / f"{name}-1.5.dist-info" / "METADATA", f"Name: {name}\nVersion: 1.5\n")
    found = [docstrings.find_package(name, [str(site)]) for name in ("alpha", "beta")]
    return [package for package in found if package]


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "distillery"


@pytest.mark.parametrize(
    "piece",
    [
        "Too few words to count.",
        ">>> x = this is an example of code",
        "name : the type of some parameter\n    and what it says of it",
        "- a list item with quite enough words in it",
        ".. note:: a directive with quite enough words in it",
        "a=1 b=2 c=3 d=4 words e=5 f=6 more",
        "Parameters of this and that\n---------------------------",
    ],
)
def test_no_paragraph(piece: str) -> None:
    assert paragraphs.as_paragraph(piece) is None


def test_paragraph_is_one_line_with_names_masked() -> None:
    piece = "    Turn a NumPy array, such as np.ones,\n    into a PyTorch tensor of torch_dtype kind."
    masked = "Turn a library array, such as library.ones, into a library tensor of library_dtype kind."
    assert paragraphs.as_paragraph(piece) == masked


@pytest.mark.parametrize("kept", ["sklearn stays", "transformer layers", "TorchScript", "the mpl of pdf", "npm.run"])
def test_other_words_are_not_masked(kept: str) -> None:
    assert paragraphs.mask_names(kept) == kept


def test_docstrings_of_module_class_and_function_in_order() -> None:
    source = b'"""M."""\nclass A:\n  """C."""\n  async def f(self):\n    """F."""\n    def g():\n      """G."""\n'
    assert docstrings.docstrings(source) == ["M.", "C.", "F.", "G."]


def test_find_package_and_files(packages: list[Package]) -> None:
    assert [(package.name, package.version) for package in packages] == [("alpha", "1.5"), ("beta", "1.5")]
    modules = [module for module, _ in docstrings.source_files(packages[0])]
    assert len(modules) == 31 and "alpha/m0.py" in modules and not any("tests" in module for module in modules)


def test_missing_packages_are_named() -> None:
    with pytest.raises(UserError, match="not installed: nowhere, nothing"):
        docstrings.required_packages(["nowhere", "nothing"])


def test_task_rules(packages: list[Package], cache: Path) -> None:
    raw = pydocs.load_pydocs(rows="all", packages=packages)
    rows = [row for split in raw.parts.values() for row in split]
    keys = [paragraphs.normalised(row.text) for row in rows]
    assert len(rows) == 120 and len(set(keys)) == 120
    assert not any(SHARED in row.text or "test" in row.text or "broken" in row.text for row in rows)
    modules = {split: {row.file for row in part} for split, part in raw.parts.items()}
    assert (
        not modules["train"] & (modules["select"] | modules["evaluate"]) and not modules["select"] & modules["evaluate"]
    )
    assert {split: len(part) for split, part in raw.parts.items()} == {"train": 96, "select": 8, "evaluate": 16}
    assert raw.group is not None and {raw.group(row) for row in rows} == set.union(*modules.values())
    assert raw.labels == ("alpha", "beta") and raw.sources == {"alpha": "1.5", "beta": "1.5"}


def test_rows_are_nested_and_seeded(packages: list[Package], cache: Path) -> None:
    few, more, other = (pydocs.load_pydocs(rows=n, seed=s, packages=packages) for n, s in ((20, 0), (40, 0), (20, 1)))
    assert few.parts["train"] == more.parts["train"][:20] != other.parts["train"]
    assert set(few.parts["evaluate"]) == set(other.parts["evaluate"])
    many = pydocs.load_pydocs(rows=5000, packages=packages)
    assert "5,000 asked for, all 96" in many.notes[0]


def test_pairs(packages: list[Package], cache: Path) -> None:
    raw = pydocs.load_pydocs_pair(rows="all", packages=packages)
    for part in raw.parts.values():
        for row in part:
            assert row.pair is not None
            same_docstring = row.text.split()[1] == row.pair.split()[1]
            assert same_docstring == (row.label == "yes")
            assert ("tensor" in row.text) == ("tensor" in row.pair)
        labels = [row.label for row in part]
        assert labels.count("yes") == labels.count("no")
    texts = [text for part in raw.parts.values() for row in part for text in (row.text, row.pair)]
    assert len(set(texts)) == len(texts) >= 100


def test_cache_is_used_and_rebuilt_when_corrupt(
    packages: list[Package], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = extraction.load_view(packages, "paragraphs")
    with monkeypatch.context() as patch:
        patch.setattr(extraction, "_extract", lambda _: pytest.fail("the cache was not used"))
        assert json.dumps(extraction.load_view(packages, "paragraphs")) == json.dumps(first)
    for file in cache.glob("pydocs-alpha-paragraphs-*"):
        file.write_bytes(file.read_bytes()[:-40])
    assert json.dumps(extraction.load_view(packages, "paragraphs")) == json.dumps(first)


def test_unwritable_cache_is_said(packages: list[Package], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extraction, "write_text", _full)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "full"))
        assert len(extraction.load_view(packages, "docstrings")["alpha"]) == 30
    assert "not cached" in capsys.readouterr().out


def _full(path: Path, text: str) -> None:
    raise UserError(f"no space left while writing {path}")


def test_corpus_leaves_held_out_modules_out(
    packages: list[Package], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pydocs, "LIBRARIES", ("alpha", "beta"))
    documents = map(docstring_sentences, pydocs.corpus_docstrings(packages=packages))
    raw = pydocs.load_pydocs(rows="all", packages=packages)
    sentences = {paragraphs.mask_names(sentence) for document in documents for sentence in document}
    assert {row.text for row in raw.parts["train"]} <= sentences
    assert not {row.text for split in ("select", "evaluate") for row in raw.parts[split]} & sentences
    assert not any(">>>" in sentence for sentence in sentences)


def test_balanced_chunks_hold_each_file_once(packages: list[Package]) -> None:
    files = [file for _, file in docstrings.source_files(packages[0])]
    chunks = extraction._balanced(files, 4)
    assert sorted(file for chunk in chunks for file in chunk) == sorted(files) and len(chunks) == 4


def test_real_package(cache: Path) -> None:
    """`datasets`, the smallest of the ten."""
    packages = docstrings.required_packages(["datasets"])
    entries = extraction.load_view(packages, "paragraphs")["datasets"]
    assert len(entries) > 500 and packages[0].version[0].isdigit()
    assert not any("datasets." in text for _, (text, _) in entries)


def test_load_task_pydocs(packages: list[Package], cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pydocs, "required_packages", lambda _: packages)
    task = load_task("pydocs", rows=30)
    assert task.labels == ("alpha", "beta") and len(task.splits["train"]) == 30 and task.metric == "accuracy"
    assert task.fingerprint == load_task("pydocs", rows=30).fingerprint != load_task("pydocs", rows=31).fingerprint
    newer = [Package(package.name, "1.6", package.root) for package in packages]
    monkeypatch.setattr(pydocs, "required_packages", lambda _: newer)
    assert task.fingerprint != load_task("pydocs", rows=30).fingerprint
