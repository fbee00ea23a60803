"""What cannot be compressed is refused before anything is trained or written."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from families import tiny_classifier
from transformers import BertModel, PreTrainedModel

from common.artifact import CardText, save
from common.errors import UserError
from distill.compress import main as compress
from distill.compress_checks import check_model
from distill.compress_config import CompressConfig
from distill.compress_options import CompressOptions
from distill.config import RunConfig
from distill.run import main as run
from teacher.options import TaskOptions

UNREACHABLE = CompressOptions(prune=0.99, prune_parts="ffn")


@pytest.fixture
def task(tmp_path: Path) -> TaskOptions:
    rows = "".join(f"a text {n},{'ab'[n % 2]}\n" for n in range(40))
    (tmp_path / "letters.csv").write_text("text,label\n" + rows)
    return TaskOptions(task=str(tmp_path / "letters.csv"))


@pytest.mark.parametrize("student", ["tiny", "distil"])
def test_a_run_whose_students_cannot_be_compressed_is_not_begun(
    student: str,
    task: TaskOptions,
    tmp_path: Path,
    tiny_bert: Callable[..., PreTrainedModel],
    tiny_tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tiny_bert(layers=4, model_class=BertModel).save_pretrained(tmp_path / "encoder")
    tiny_tokenizer.save_pretrained(tmp_path / "encoder")
    places = {"runs": tmp_path / "runs", "reports": tmp_path / "reports", "teacher": str(tmp_path / "encoder")}
    with pytest.raises(UserError, match=r"--prune: at most \d+% can go"):
        run(RunConfig(student=student, data=task, compress=UNREACHABLE, **places))
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(UserError, match="ONNX needs the package 'onnxscript'"):
        run(RunConfig(student=student, data=task, compress=CompressOptions(int8=True), **places))
    assert not (tmp_path / "runs").exists()


def test_a_model_that_cannot_be_compressed_is_refused_before_a_folder_is_made(
    task: TaskOptions,
    tmp_path: Path,
    tiny_bert: Callable[..., PreTrainedModel],
    tiny_tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = tiny_bert(labels=2, id2label={0: "a", 1: "b"}, label2id={"a": 0, "b": 1})
    save(model, tiny_tokenizer, tmp_path / "m", card=CardText(title="m", description="", task="t"))
    places = {"out": tmp_path / "runs" / "small", "reports": tmp_path / "reports", "model": str(tmp_path / "m")}
    trimmed = CompressOptions(trim_vocabulary=True, prune=0.99, prune_parts="ffn")
    with pytest.raises(UserError, match=r"--prune: at most \d+% can go"):
        compress(CompressConfig(data=task, compress=trimmed, **places))
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(UserError, match="ONNX needs the package 'onnxscript'"):
        compress(CompressConfig(data=task, compress=CompressOptions(prune=0.3, onnx=True), **places))
    assert not (tmp_path / "runs").exists()


def test_what_onnx_cannot_hold_is_named() -> None:
    with pytest.raises(UserError, match="DebertaForSequenceClassification cannot be exported"):
        check_model(tiny_classifier("deberta"), CompressOptions(trim_vocabulary=True, onnx=True))
