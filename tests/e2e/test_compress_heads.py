"""The chain for every kind of head: each artifact is measured by the task's own metric, and answers without torch."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from e2e.conftest import ROOT
from transformers import (
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertTokenizerFast,
    PreTrainedModel,
)

from common.artifact import CardText, load, save
from common.uneven import Uneven
from distill.compress_chain import Artifact
from distill.compress_measure import Entry, measured
from distill.compress_options import CompressOptions
from distill.compress_prune import Pruning
from distill.compress_ship import Exporting, Quantising
from distill.compress_trim import Trimming
from distill.placed_answers import Answers
from distill.recovery import Training
from students.pruned_shape import shape_of
from teacher.cutting import words_of
from teacher.data import Example, TaskData
from teacher.prepare import Prepared, predict_logits, prepare, tune
from teacher.questions import Answer, Gold
from teacher.tasks import task_for
from teacher.tasks.base import Task

LENGTH = 24
TEXTS = ["the film is good", "a bad plot, and boring music", "an actor", "great story, not very good play"] * 2
OPTIONS = CompressOptions(trim_vocabulary=True, keep_frequent=0, int8=True, max_drop=0.0)


def task_of(kind: str, labels: tuple[str, ...], metric: str, examples: list[Example]) -> Task:
    splits = dict.fromkeys(("train", "select", "evaluate"), tuple(examples))
    data = TaskData(
        name="t", kind=kind, labels=labels, metric=metric, splits=splits, origins={}, fingerprint="0", sources={}
    )
    return task_for(data)


def tags() -> tuple[Task, type[PreTrainedModel]]:
    spans = [tuple(words_of(text)) for text in TEXTS]
    labels = [tuple((place + row) % 3 for place in range(len(words))) for row, words in enumerate(spans)]
    rows = zip(TEXTS, labels, spans, strict=True)
    examples = [Example(text, None, label, span) for text, label, span in rows]
    return task_of("tags", ("A", "B", "C"), "accuracy", examples), BertForTokenClassification


def questions() -> tuple[Task, type[PreTrainedModel]]:
    """With contexts of several windows, and questions without an answer."""
    examples = []
    for number, text in enumerate(TEXTS):
        context = " ".join([text, "and the plot is boring"] * (1 + number % 4))
        answers = (Answer("plot", context.index("plot")),) if number % 2 else ()
        examples.append(Example(f"is it {number}", context, "", Gold(answers=answers, id=str(number), article="")))
    return task_of("questions", (), "f1", examples), BertForQuestionAnswering


def choices() -> tuple[Task, type[PreTrainedModel]]:
    """Of two or three."""
    endings = [("good", "bad and boring", "great"), ("of music", "it")]
    examples = [Example(text, None, number % 2, endings[number % 2]) for number, text in enumerate(TEXTS)]
    return task_of("choices", ("1", "2", "3"), "accuracy", examples), BertForMultipleChoice


def multilabel() -> tuple[Task, type[PreTrainedModel]]:
    examples = [Example(text, None, (number % 3,) if number % 4 else ()) for number, text in enumerate(TEXTS)]
    return task_of("multilabel", ("x", "y", "z"), "micro_f1", examples), BertForSequenceClassification


def windows() -> tuple[Task, type[PreTrainedModel]]:
    examples = [Example(" and ".join([text] * (1 + n)), None, n % 3) for n, text in enumerate(TEXTS[:6])]
    task = task_of("classification", ("x", "y", "z"), "accuracy", examples)
    return task_for(dataclasses.replace(task.data, long="windows", stride=5)), BertForSequenceClassification


KINDS: Mapping[str, Callable[[], tuple[Task, type[PreTrainedModel]]]] = {
    "tags": tags,
    "questions": questions,
    "choices": choices,
    "multilabel": multilabel,
    "windows": windows,
}


def lines_of(task: Task) -> list[dict[str, Any]]:
    """What `distill.predict` is given of the examples."""
    if task.kind == "questions":
        return [{"question": example.text, "context": example.pair} for example in task.data.splits["evaluate"]]
    if task.kind == "choices":
        return [{"context": example.text, "choices": example.detail} for example in task.data.splits["evaluate"]]
    return [{"text": example.text} for example in task.data.splits["evaluate"]]


def answer_of(task: Task, row: Mapping[str, Any]) -> Any:
    """An answer of `distill.predict` as the task has predictions."""
    if task.kind == "tags":
        return [task.data.labels.index(word["label"]) for word in row["words"]]
    if task.kind == "multilabel":
        return [int(label in row["labels"]) for label in task.data.labels]
    if task.kind == "classification":
        return task.data.labels.index(row["label"])
    return row["answer" if task.kind == "questions" else "choice"]


def predicted(folder: Path, task: Task, file: Path) -> list[Any]:
    """What the command answers in a process that has neither torch nor transformers."""
    code = (
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "class Absent:\n"
        "    def find_spec(self, name, *others):\n"
        "        if name in ('torch', 'transformers', 'onnx'): raise ImportError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from common.command import run_command\nfrom distill.predict import PredictConfig, main\n"
        "sys.exit(run_command(main, PredictConfig, arguments=sys.argv[1:]))"
    )
    file.write_text("\n".join(map(json.dumps, lines_of(task))), encoding="utf-8")
    options = ["--model", str(folder), "--file", str(file), "--threads", "1", "--batch-size", "3"]
    command = [sys.executable, "-I", "-c", code, *options]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    return [answer_of(task, json.loads(line)) for line in result.stdout.splitlines()]


def as_list(predictions: np.ndarray) -> list[Any]:
    return [value.tolist() if isinstance(value, np.ndarray) else value for value in predictions]


def saved(
    kind: str, tiny_bert: Callable[..., PreTrainedModel], tokenizer: BertTokenizerFast, folder: Path
) -> tuple[PreTrainedModel, Prepared]:
    """A random model for a task of this kind, which is in `folder` too."""
    task, cls = KINDS[kind]()
    model = tiny_bert(model_class=cls, initializer_range=0.3, **_head(task))
    prepared = prepare(task, tokenizer, LENGTH)
    tune(model, prepared)
    save(model, tokenizer, folder, card=CardText(title="m", description="", task="t"), max_length=LENGTH)
    return model, prepared


@pytest.mark.parametrize("kind", KINDS)
def test_every_artifact_answers_as_it_was_measured(
    kind: str, tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast
) -> None:
    model, prepared = saved(kind, tiny_bert, tiny_tokenizer, tmp_path / "m")
    task = prepared.task
    whole = Artifact(folder=tmp_path / "m")
    trimmed = Trimming(task=task, options=OPTIONS, max_length=LENGTH)(whole, tmp_path / "1")
    exported = Exporting(task=task, max_length=LENGTH)(trimmed, tmp_path / "2")
    quantised = Quantising(task=task, options=OPTIONS)(exported, tmp_path / "3")
    artifacts = [whole, trimmed, exported, quantised]
    entries = [Entry(step=str(number), artifact=artifact) for number, artifact in enumerate(artifacts)]
    rows = measured(entries, task, max_length=LENGTH, speed=False, seconds=1.0)

    expected = prepared.decode(predict_logits(model, prepared, "evaluate"), "evaluate")
    value = task.metrics(expected, prepared.splits["evaluate"].references)[task.data.metric]
    # Trimming looked at these texts, and the exported model is the same model.
    for row in rows[:3]:
        assert as_list(row.predictions) == as_list(expected)
        assert row.row.value == pytest.approx(value)
    # The selection split is the evaluation split here, and nothing may be lost on it.
    assert rows[3].row.value >= value - 1e-9
    # Not so of int8, whose ranges are those of a batch: the command has other batches.
    assert predicted(exported.folder, task, tmp_path / "in.jsonl") == as_list(rows[2].predictions)
    for artifact in artifacts:
        config = json.loads((artifact.folder / "config.json").read_text(encoding="utf-8"))
        reading = {name: value for name, value in task.reading.items() if value is not None}
        assert {name: config[name] for name in reading} == reading
        assert set(task.settings) <= set(config)


def _head(task: Task) -> dict[str, Any]:
    """Head entries as `tiny_bert` takes them."""
    head = task.head()
    return {"labels": head.pop("num_labels"), **head}


def test_a_model_that_no_longer_reads_windows_says_so_no_longer(
    tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast
) -> None:
    task, cls = windows()
    model = tiny_bert(model_class=cls, **_head(task))
    tune(model, prepare(task, tiny_tokenizer, LENGTH))
    assert (model.config.long_texts, model.config.window_stride) == ("windows", 5)
    plain = task_for(dataclasses.replace(task.data, long="truncate", stride=None))
    tune(model, prepare(plain, tiny_tokenizer, LENGTH))
    save(model, tiny_tokenizer, tmp_path / "m", card=CardText(title="m", description="", task="t"))
    assert not hasattr(load(tmp_path / "m")[0].config, "long_texts")
    assert "long_texts" not in (tmp_path / "m" / "config.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["tags", "questions", "choices"])
def test_a_pruned_model_of_each_kind_learns_again_and_answers_as_it_was_measured(
    kind: str, tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast
) -> None:
    model, prepared = saved(kind, tiny_bert, tiny_tokenizer, tmp_path / "m")
    task = prepared.task
    pruning = Pruning(
        task=task,
        options=CompressOptions(prune=0.4, prune_steps=2, prune_parts="heads,ffn,hidden"),
        training=Training(learning_rate=1e-3, precision="fp32", checkpoint_every=50, seed=0),
        max_length=LENGTH,
        answers=lambda: Answers(logits=predict_logits(model, prepared, "train")),
    )
    pruned = pruning(Artifact(folder=tmp_path / "m"), tmp_path / "1")
    exported = Exporting(task=task, max_length=LENGTH)(pruned, tmp_path / "2")
    entries = [Entry(step=str(number), artifact=artifact) for number, artifact in enumerate([pruned, exported])]
    rows = measured(entries, task, max_length=LENGTH, speed=False, seconds=1.0)
    smaller = load(pruned.folder)[0]
    assert isinstance(smaller, type(model))
    assert isinstance(smaller, Uneven)
    assert shape_of(smaller).encoder_parameters <= 0.6 * shape_of(model).encoder_parameters
    assert (tmp_path / "1" / "prune-2" / "recovered" / "layers.txt").read_text(encoding="utf-8") == "1 2\n"
    assert as_list(rows[0].predictions) == as_list(rows[1].predictions)
