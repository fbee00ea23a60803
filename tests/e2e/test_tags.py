"""From tagged words in columns to compared students, by the real command."""

from pathlib import Path

import pytest
from e2e.conftest import quick
from transformers import AutoModelForTokenClassification

from common.artifact import load
from common.command import run_command
from distill.config import RunConfig
from distill.run import main
from reports.record import Record


@pytest.fixture
def columns(tmp_path: Path) -> Path:
    """ "film" after "good" is a work, "actor" a person."""
    sentences = []
    for number in range(60):
        quality = ("good", "bad")[number % 2]
        tag = "B-WORK" if quality == "good" else "O"
        sentences.append(f"the O\n{quality} O\nfilm {tag}\nand O\nactor B-PER\nw{number} O\n")
    path = tmp_path / "words.conll"
    path.write_text("\n".join(sentences), encoding="utf-8")
    return path


def test_students_of_a_tagger_are_taggers(tmp_path: Path, columns: Path, encoder: Path) -> None:
    options = quick(tmp_path, columns, encoder, "--student", "tiny,distil,albert")
    assert run_command(main, RunConfig, arguments=[str(option) for option in options]) == 0
    folder = tmp_path / "runs" / "words-tiny-distil-albert"
    record = Record.load(folder / "record.json")
    assert [card.role for card in record.models].count("baseline") == 0
    assert (record.task.kind, record.task.metric, record.task.majority) == ("tags", "entity_f1", 0.0)
    for name in ("tiny", "distil", "albert"):
        where = folder / name / "seed-0" / "model"
        model = AutoModelForTokenClassification.from_pretrained(where)
        assert set(model.config.label2id) == {"O", "B-PER", "B-WORK"}
        assert type(load(where)[0]) is type(model)
        quality = record.model(name).quality
        assert set(quality.metrics) >= {"entity_f1", "precision", "recall", "accuracy"}
        assert quality.mcnemar_p is None and quality.against_teacher is not None
        assert {row.label for row in quality.per_class} == {"PER", "WORK"}
    page = (tmp_path / "reports" / "words-tiny-distil-albert.html").read_text(encoding="utf-8")
    assert "AutoModelForTokenClassification" in (where / "README.md").read_text(encoding="utf-8")
    assert "entity F1" in page


def test_texts_beside_the_words_are_refused(
    tmp_path: Path, columns: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = quick(tmp_path, columns, encoder, "--student", "tiny", "--augment", "2")
    assert run_command(main, RunConfig, arguments=[str(option) for option in options]) == 2
    assert "--augment is for tasks of texts and pairs of texts" in capsys.readouterr().err
