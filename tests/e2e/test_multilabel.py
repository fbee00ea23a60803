"""From texts with several labels to compared students, by the real command; the teacher a model, or a file."""

import json
from pathlib import Path

import numpy as np
import pytest
from e2e.conftest import quick
from transformers import AutoModelForSequenceClassification

from common.command import run_command
from distill.config import RunConfig
from distill.run import main
from reports.record import Record

TEXTS = [("good film", ["good", "about film"]), ("bad plot", ["bad"]), ("good music", ["good"]), ("story", [])]


@pytest.fixture
def sets(tmp_path: Path) -> Path:
    rows = [{"text": f"{text} w{n}", "labels": labels} for n in range(20) for text, labels in TEXTS]
    path = tmp_path / "sets.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_students_of_several_labels(tmp_path: Path, sets: Path, encoder: Path) -> None:
    more = tmp_path / "more.txt"
    more.write_text("bad music and film\ngood story\n", encoding="utf-8")
    options = quick(tmp_path, sets, encoder, "--student", "tiny,distil,albert", "--unlabeled", more)
    assert run_command(main, RunConfig, arguments=options) == 0
    folder = tmp_path / "runs" / "sets-tiny-distil-albert"
    record = Record.load(folder / "record.json")
    assert (record.task.kind, record.task.metric, record.task.labels) == (
        "multilabel", "micro_f1", ("about film", "bad", "good")
    )  # fmt: skip
    for name in ("tiny", "distil", "albert"):
        model = AutoModelForSequenceClassification.from_pretrained(folder / name / "seed-0" / "model")
        assert model.config.problem_type == "multi_label_classification" and model.config.num_labels == 3
        quality = record.model(name).quality
        assert set(quality.metrics) == {"micro_f1", "macro_f1", "subset_accuracy"}
        assert [row.label for row in quality.per_class] == ["about film", "bad", "good"]
    assert record.model("TF-IDF + logistic regression").quality.value > record.task.majority
    assert record.model("teacher").quality.value > record.task.majority
    page = (tmp_path / "reports" / "sets-tiny-distil-albert.html").read_text(encoding="utf-8")
    assert "multilabel with 3 labels" in page and "micro F1" in page and "always the most frequent labels" in page


def test_a_file_of_probabilities_teaches_several_labels(tmp_path: Path, sets: Path, encoder: Path) -> None:
    outputs = tmp_path / "outputs.jsonl"
    rows = [json.loads(line) for line in sets.read_text(encoding="utf-8").split("\n")]
    said = [
        {"text": row["text"], "probabilities": {name: 0.9 if name in row["labels"] else 0.2 for name in
         ("bad", "good", "about film")}}
        for row in rows
    ]  # fmt: skip
    outputs.write_text("\n".join(map(json.dumps, said)), encoding="utf-8")
    options = quick(tmp_path, sets, encoder, "--student", "tiny", "--teacher-outputs", outputs, "--no-twins")
    assert run_command(main, RunConfig, arguments=options) == 0
    record = Record.load(tmp_path / "runs" / "sets-tiny" / "record.json")
    assert record.model("teacher").quality.value == 1.0


def test_students_read_long_texts_in_windows(tmp_path: Path, encoder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{'film music ' * (n % 4)}{('good', 'bad')[n % 2]} w{n}\t{n % 2}" for n in range(60)]
    path = tmp_path / "long.tsv"
    path.write_text("\n".join(["text\tlabel", *rows]), encoding="utf-8")
    options = quick(tmp_path, path, encoder, "--student", "distil", "--max-length", 8, "--long", "windows")
    assert run_command(main, RunConfig, arguments=options) == 0
    record = Record.load(tmp_path / "runs" / "long-distil" / "record.json")
    assert record.model("distil").quality.n == record.task.rows["evaluate"]
    answers = np.load(tmp_path / "runs" / "long-distil" / "distil" / "seed-0" / "answers" / "evaluate.npy")
    assert len(answers) > record.task.rows["evaluate"]
    again = quick(tmp_path, path, encoder, "--student", "tiny", "--long", "windows", "--augment", 2)
    assert run_command(main, RunConfig, arguments=again) == 2
    assert "--augment cannot be combined with --long windows" in capsys.readouterr().err
