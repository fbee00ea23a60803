"""What predictions refuse in one sentence: options without a use, input that is no text, and models that are only steps
on the way to the one that was shipped.
"""

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import image
from transformers import BertForTokenClassification, BertTokenizerFast, PreTrainedModel

from common.artifact import save
from common.card import CardText
from common.errors import UserError
from distill.compress_chain import Artifact, Step, run_chain
from distill.predict import PredictConfig, Running, predict
from distill.predict_answers import Answering
from distill.predict_heads import head_for
from distill.predict_lines import Faults, open_lines
from distill.predict_meaning import refuse_meaningless
from distill.predict_models import find_model
from distill.predict_texts import Reading

SEQUENCE = "BertForSequenceClassification"
ONE = {"problem_type": "single_label_classification"}


def refuse(
    architecture: str, *, labels: int = 2, second: str | None = None, choices: bool = False, **given: Any
) -> None:
    options = Answering(**{name: given.pop(name) for name in ("top", "threshold") if name in given})
    names = {str(index): str(index) for index in range(labels)}
    head = head_for({"architectures": [architecture], "id2label": names, **given}, options, "m")
    refuse_meaningless(head, options, where="m", second=second, choices=choices)


@pytest.mark.parametrize(
    ("architecture", "options", "words"),
    [
        (SEQUENCE, {**ONE, "threshold": 0.5}, r"--threshold 0\.5 is for multi-label models"),
        (SEQUENCE, {"labels": 1, "top": 2}, "--top 2 is for models that give classes"),
        ("BertForQuestionAnswering", {"top": 1}, "--top 1 is for"),
        ("BertForMultipleChoice", {"threshold": 0.0}, "--threshold 0.0 is for"),
        ("BertForTokenClassification", {"second": "--pair"}, "--pair is for models of pairs"),
        (SEQUENCE, {**ONE, "text_pairs": False, "second": "--pair-column"}, "--pair-column is for .* m was trained"),
        (SEQUENCE, {**ONE, "choices": True}, "--choices are for models of multiple choice; m holds none"),
    ],
)
def test_an_option_without_a_use_is_refused(architecture: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        refuse(architecture, **options)


def test_options_with_a_use_are_taken() -> None:
    refuse(SEQUENCE, **ONE, top=2)
    refuse(SEQUENCE, problem_type="multi_label_classification", top=1, threshold=0.2)
    refuse(SEQUENCE, **ONE, text_pairs=True, second="--pair")
    # Folders of before do not say what the model was trained on.
    refuse(SEQUENCE, **ONE, second="--pair")
    refuse("BertForQuestionAnswering", second="--pair")
    refuse("BertForMultipleChoice", labels=1, choices=True)


def test_a_saved_model_says_whether_it_reads_pairs(
    tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    card = CardText(title="t", description="d", task="t")
    for name, pairs in (("single", False), ("pair", True)):
        save(tiny_bert(**ONE), tiny_tokenizer, tmp_path / name, card=card, pairs=pairs)
    save(tiny_bert(model_class=BertForTokenClassification), tiny_tokenizer, tmp_path / "tags", card=card)
    answers = {"out": tmp_path / "o.jsonl", "running": Running(threads=1)}
    for name in ("single", "tags"):
        with pytest.raises(UserError, match=rf"--pair is for models of pairs of texts; .*{name} was trained"):
            predict(PredictConfig(model=tmp_path / name, text=("good",), pair="film", **answers))
    with pytest.raises(UserError, match=r"line 1 has one text, and .*pair was trained on pairs of texts"):
        predict(PredictConfig(model=tmp_path / "pair", text=("good",), **answers))
    predict(PredictConfig(model=tmp_path / "pair", text=("good",), pair="film", **answers))
    assert len(json.loads(answers["out"].read_text())["probabilities"]) == 3
    table = tmp_path / "t.csv"
    table.write_text("a,b\ngood film,bad\n")
    reading = Reading(file=table, text_column="a", pair_column="b")
    with pytest.raises(UserError, match="--pair-column is for models of pairs"):
        predict(PredictConfig(model=tmp_path / "single", reading=reading, running=Running(threads=1)))
    table.write_text("question,answer\ngood film,bad\n")
    answers["out"].unlink()
    for name in ("single", "tags"):
        with pytest.raises(
            UserError, match=rf"line 2 has two texts, and .*{name} was .* single texts: name the column"
        ):
            predict(PredictConfig(model=tmp_path / name, reading=Reading(file=table), **answers))
    named = Reading(file=table, text_column="question")
    predict(PredictConfig(model=tmp_path / "single", reading=named, **answers))
    assert len(answers["out"].read_text().splitlines()) == 1


def _zipped(*names: str) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in names:
            archive.writestr(name, "text\n" * 50)
    return target.getvalue()


def _png() -> bytes:
    target = io.BytesIO()
    image.imsave(target, np.zeros((4, 4)), format="png")
    return target.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (_zipped("reviews.csv"), "is a zip archive: unpack it"),
        (_zipped("[Content_Types].xml", "xl/workbook.xml"), "is a binary Excel file, not text: save it as csv"),
        (_png(), "is a PNG image, not text"),
        (b"\x40\x00\x00\x00\x00\x00\x00\x00" + b'{"w":{"dtype":"F32"}}' * 9, "is a safetensors file, not text"),
        ("müde\n".encode("latin1") * 30 + b"gut\n" * 20, r"is not text in UTF-8: 30 of its first 50 lines are not"),
        (b"PAR1\x15\x04\x15", "is a parquet file, not text"),
        (np.random.default_rng(0).bytes(4000), "is a binary file, not text"),
        ("good".encode("utf-16"), "is UTF-16"),
    ],
    ids=["zip", "xlsx", "png", "safetensors", "latin-1", "parquet", "random", "utf-16"],
)
def test_what_is_no_text_is_one_error(content: bytes, words: str, tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"in\.csv {words}"), open_lines(path, Faults("f", strict=False)) as lines:
        list(lines)
    with path.open("rb") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        with pytest.raises(UserError, match=f"standard input {words}"):
            _from_stdin()


def _from_stdin() -> list[str]:
    faults = Faults("standard input", strict=False)
    with open_lines(None, faults) as lines:
        return [text for _, text in lines]


def test_a_text_with_some_bad_lines_is_text(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    for content in ("müde\n".encode("latin1") * 20 + b"gut\n" * 20, "müde\n".encode("latin1") * 19):
        path.write_bytes(content)
        with open_lines(path, Faults("f", strict=False)) as lines:
            assert len(list(lines)) == content.count(b"\n")


def test_a_typed_line_may_hold_signs_of_control(monkeypatch: pytest.MonkeyPatch) -> None:
    def piped(content: bytes) -> list[str]:
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as stream:
            os.write(writing, content)
            os.close(writing)
            monkeypatch.setattr("sys.stdin", stream)
            return _from_stdin()

    assert piped(b"\x01\x02 a\nb") == ["\x01\x02 a", "b"]
    with pytest.raises(UserError, match="standard input is packed with gzip: unpack it"):
        piped(b"\x1f\x8b\x08\x00")


def _model(folder: Path, weights: str = "model.safetensors") -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / weights).write_text("")
    return folder


def _chain(folder: Path) -> None:
    def makes(name: str, *others: str) -> Callable[[Artifact, Path], Artifact]:
        def apply(before: Artifact, own: Path) -> Artifact:
            for other in others:
                _model(own / other)
            return Artifact(folder=_model(own / name))

        return apply

    steps = {"prune": makes("model", "cut", "recovered"), "onnx": makes("model"), "int8": makes("int8", "tried")}
    chain = [Step(name=name, title=name, apply=apply) for name, apply in steps.items()]
    run_chain(Artifact(folder=folder), chain, folder)
    run_chain(Artifact(folder=folder), chain[1:], folder / "reference")


def test_the_model_of_a_chain_is_the_one_it_ends_with(tmp_path: Path) -> None:
    chain = tmp_path / "run-compressed"
    _chain(chain)
    assert find_model(chain) == chain / "3-int8" / "int8"
    assert find_model(chain / "1-prune") == chain / "1-prune" / "model"
    assert find_model(chain / "reference") == chain / "reference" / "2-int8" / "int8"
    assert find_model(tmp_path) == chain / "3-int8" / "int8"
    # A chain that stopped on its way has shipped nothing: all are named.
    (chain / "4-more").mkdir()
    with pytest.raises(UserError, match=r"holds \d+ models: give one of .*1-prune/cut"):
        find_model(chain)


def test_a_run_with_a_chain_names_its_student_and_what_was_shipped(tmp_path: Path) -> None:
    student = _model(tmp_path / "tiny" / "seed-0" / "model")
    _chain(tmp_path / "shipped" / "tiny")
    with pytest.raises(UserError) as caught:
        find_model(tmp_path)
    shipped = tmp_path / "shipped" / "tiny" / "3-int8" / "int8"
    assert f"holds 2 models: give one of {shipped}, {student} (steps on the way" in str(caught.value)
    assert "prune" not in str(caught.value)
