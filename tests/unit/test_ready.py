"""A teacher that came fine-tuned stays where it is, or is copied where its folder lacks what the run needs of it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from toy import toy_task
from transformers import BertForQuestionAnswering, BertTokenizerFast, PreTrainedModel

from common.artifact import CardText, save
from common.errors import UserError
from distill.measure import measure_size
from teacher.data import Example, TaskData
from teacher.options import FinetuneOptions
from teacher.prepare import settings_of
from teacher.questions import Answer, Gold
from teacher.ready import Teacher, owned, ready_teacher, teacher_key
from teacher.tasks import task_for
from teacher.tasks.base import Task
from teacher.tasks.questions import THRESHOLD

OPTIONS = FinetuneOptions()


@pytest.fixture
def finetuned(tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast) -> Path:
    names = {"id2label": dict(enumerate("abc")), "label2id": {"a": 0, "b": 1, "c": 2}}
    model = tiny_bert(problem_type="single_label_classification", **names)
    save(model, tiny_tokenizer, tmp_path / "m", card=CardText(title="m", description="", task="t"), max_length=16)
    return tmp_path / "m"


def _teacher(source: Path, task: Task, folder: Path) -> Teacher:
    made = ready_teacher(str(source), task, OPTIONS, folder, max_length=16, precision="fp32")
    return owned(made, folder, teacher_key(str(source), task, OPTIONS, 16, "fp32"))


def test_a_folder_with_all_of_it_is_used_as_it_is(finetuned: Path, tmp_path: Path) -> None:
    assert _teacher(finetuned, toy_task(), tmp_path / "copy").folder == finetuned
    assert not (tmp_path / "copy").exists()


def test_pickled_weights_are_copied_once(finetuned: Path, tmp_path: Path) -> None:
    model = ready_teacher(str(finetuned), toy_task(), OPTIONS, tmp_path / "x", max_length=16, precision="fp32").model
    (finetuned / "model.safetensors").unlink()
    torch.save(model.state_dict(), finetuned / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"has no \.safetensors file"):
        measure_size(model, finetuned)
    first = _teacher(finetuned, toy_task(), tmp_path / "copy")
    assert first.folder == tmp_path / "copy" / "model"
    assert measure_size(first.model, first.folder).bytes_on_disk > 0
    assert first.outcome is None
    written = (first.folder / "model.safetensors").stat().st_mtime_ns
    assert _teacher(finetuned, toy_task(), tmp_path / "copy").folder == first.folder
    assert (first.folder / "model.safetensors").stat().st_mtime_ns == written


def test_other_pickled_weights_are_another_teacher(finetuned: Path) -> None:
    (finetuned / "model.safetensors").rename(finetuned / "pytorch_model.bin")
    before = teacher_key(str(finetuned), toy_task(), OPTIONS, 16, "fp32")
    assert teacher_key(str(finetuned), toy_task(), OPTIONS, 16, "fp32") == before
    (finetuned / "pytorch_model.bin").write_bytes(b"trained again")
    assert teacher_key(str(finetuned), toy_task(), OPTIONS, 16, "fp32") != before


def test_a_threshold_that_was_found_here_is_in_the_copy(
    tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast
) -> None:
    rows = tuple(
        Example(
            f"what {n}",
            "the film is good",
            "good" if n % 3 else "",
            Gold(answers=(Answer("good", 12),) if n % 3 else (), id=f"q{n}", article="a"),
        )
        for n in range(12)
    )
    splits = dict.fromkeys(("train", "select", "evaluate"), rows)
    kind = {"kind": "questions", "labels": (), "metric": "f1"}
    task = task_for(TaskData(name="toy", splits=splits, origins={}, fingerprint="0", sources={}, **kind))  # type: ignore[arg-type]
    model = tiny_bert(model_class=BertForQuestionAnswering, labels=2)
    save(model, tiny_tokenizer, tmp_path / "m", card=CardText(title="m", description="", task="t"), max_length=16)
    made = _teacher(tmp_path / "m", task, tmp_path / "copy")
    threshold = settings_of(made.model, task)[THRESHOLD]
    assert made.folder == tmp_path / "copy" / "model"
    assert json.loads((made.folder / "config.json").read_text())[THRESHOLD] == pytest.approx(threshold)
    # A model that has it already is not copied.
    assert _teacher(made.folder, task, tmp_path / "again").folder == made.folder
