"""A model through its chain beside its teacher: what goes wrong with the one must not cost the other."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from families import tiny_classifier
from toy import toy_task

from common.artifact import CardText, save
from distill.compress_chain import Artifact
from distill.compress_options import CompressOptions
from distill.compress_steps import work_for
from distill.compress_students import compressed_students
from distill.config import RunConfig
from distill.shipping import Shipment, ship
from teacher.tasks.base import Task

TEXTS = ["good film", "a bad plot", "the actor is funny"]


def saved(kind: str, task: Task, tokenizer, folder: Path) -> Artifact:
    head = {name: value for name, value in task.head().items() if name != "num_labels"}
    card = CardText(title="m", description="", task="t")
    save(tiny_classifier(kind, len(tokenizer), **head), tokenizer, folder, card=card, max_length=32)
    return Artifact(folder=folder)


@pytest.mark.parametrize("family", ["deberta", "modernbert"])
def test_a_teacher_that_onnx_cannot_hold_costs_its_own_rows_alone(tmp_path: Path, tiny_tokenizer, family: str) -> None:
    pytest.importorskip("onnxruntime")
    task = toy_task(texts=TEXTS)
    options = CompressOptions(onnx=True)
    student = saved("bert", task, tiny_tokenizer, tmp_path / "student")
    teacher = saved(family, task, tiny_tokenizer, tmp_path / "teacher")
    places = {"max_length": 32, "precision": "fp32", "checkpoint_every": 50, "seed": 0}
    work = work_for(task, teacher.folder, tmp_path / "run", options=options, **places)
    shipment = Shipment(name="small", start=student, reference=teacher, reference_name="teacher")
    rows = [entry.row for entry in ship(shipment, options, work, tmp_path / "run", speed=False)]
    assert [row.step for row in rows if row.precision == "fp32"] == ["teacher", "small", "ONNX"]
    assert "not measured on ONNX Runtime" in rows[0].notes[0]
    assert "cannot be exported" in rows[0].notes[0]
    assert not any("not measured" in note for row in rows[1:] for note in row.notes)


def test_a_chain_that_breaks_unexpectedly_leaves_the_others_and_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def compressed(config: RunConfig, run: Path, teacher: object, job: SimpleNamespace, **options: object) -> str:
        if job.row == "tiny":
            raise KeyError("a name")
        return f"the chain of {job.row}"

    monkeypatch.setattr("distill.compress_students._compressed", compressed)
    jobs = [SimpleNamespace(row=name, twin=False, seed=0) for name in ("tiny", "distil")]
    config = RunConfig(student="tiny,distil", compress=CompressOptions(onnx=True))
    chains, failures = compressed_students(config, tmp_path, None, jobs, outputs_only=False)  # type: ignore[arg-type]
    assert chains == ("the chain of distil",)
    assert failures == ("tiny was not compressed, by a fault of this program: 'a name'",)
    assert "Traceback" in capsys.readouterr().err, "whoever reports it needs it"
