"""From questions and from choices in files to compared students, by the real command."""

import json
import re
import shlex
from pathlib import Path

import pytest
from e2e.conftest import ROOT, quick
from transformers import AutoModelForMultipleChoice, AutoModelForQuestionAnswering

from common.artifact import load
from common.command import run_command
from distill.config import RunConfig
from distill.predict import PredictConfig, predict
from distill.run import main
from reports.record import Record

WORDS = ("film", "plot", "actor", "music", "story")


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """SQuAD 2.0's json: what stands after "good" answers, where there is such a word."""
    articles = []
    for number in range(30):
        answer, other = WORDS[number % 5], WORDS[(number + 2) % 5]
        context = f"the {other} is bad and the good {answer} is great and token {number}" + " it is not this" * (
            number % 4
        )
        answers = [{"text": answer, "answer_start": context.index(f"good {answer}") + 5}]
        qas = [
            {"id": f"{number}a", "question": "good", "answers": answers, "is_impossible": False},
            {"id": f"{number}b", "question": "funny", "answers": [], "is_impossible": True},
        ]
        articles.append({"title": f"t{number}", "paragraphs": [{"context": context, "qas": qas}]})
    path = tmp_path / "asked.json"
    path.write_text(json.dumps({"version": "v2.0", "data": articles}), encoding="utf-8")
    return path


@pytest.fixture
def choices(tmp_path: Path) -> Path:
    """SWAG's columns: the ending with "good" is right; some rows have one choice less."""
    lines = ["sent1,sent2,ending0,ending1,ending2,label"]
    for number in range(60):
        endings = [f"bad {WORDS[number % 5]}", f"poor {WORDS[(number + 1) % 5]}", "boring" if number % 3 else ""]
        right = number % 2
        endings[right] = f"good {WORDS[(number + 3) % 5]}"
        lines.append(f"the array {number},is a,{endings[0]},{endings[1]},{endings[2]},{right}")
    path = tmp_path / "swag.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def _run(tmp_path: Path, task: Path, encoder: Path, *more: str) -> tuple[Path, Record]:
    options = quick(tmp_path, task, encoder, "--student", "tiny,distil,albert", *more)
    assert run_command(main, RunConfig, arguments=options) == 0
    folder = tmp_path / "runs" / f"{task.stem}-tiny-distil-albert"
    return folder, Record.load(folder / "record.json")


def _readme_example(model: Path, word: str) -> list[str]:
    """The options of README's prediction with a model of that task, which is `model` here."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(rf"^python -m distill\.predict (--model runs/{word}.*)$", text, flags=re.MULTILINE)
    return ["--model", str(model), *shlex.split(line)[2:], "--threads", "1"]


def test_students_of_a_model_that_answers_questions_answer_them(
    tmp_path: Path, questions: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, record = _run(tmp_path, questions, encoder, "--max-length", "24", "--stride", "6")
    assert (record.task.kind, record.task.metric, record.task.labels) == ("questions", "f1", ())
    assert record.task.majority == 0.5
    assert "baseline" not in {card.role for card in record.models}
    assert any(note.startswith("No answer threshold") and "albert" in note for note in record.notes)
    for name in ("tiny", "distil", "albert"):
        where = folder / name / "seed-0" / "model"
        model = AutoModelForQuestionAnswering.from_pretrained(where)
        assert isinstance(model.config.no_answer_threshold, float)
        assert type(load(where)[0]) is type(model)
        quality = record.model(name).quality
        assert set(quality.metrics) >= {"f1", "exact_match", "has_answer_f1", "no_answer_f1"}
        assert quality.n == record.task.rows["evaluate"]
        assert quality.mcnemar_p is not None and quality.against_teacher is not None
    assert run_command(predict, PredictConfig, arguments=_readme_example(folder / "tiny", "squad")) == 0
    answer = json.loads(re.findall(r"^{.*}$", capsys.readouterr().out, flags=re.MULTILINE)[-1])
    assert answer.keys() == {"line", "answer", "start", "end", "score"}
    page = (tmp_path / "reports" / f"{folder.name}.html").read_text(encoding="utf-8")
    assert "exact match" in page


def test_students_of_a_model_that_chooses_choose(
    tmp_path: Path, choices: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, record = _run(tmp_path, choices, encoder)
    assert (record.task.kind, record.task.metric) == ("choices", "accuracy")
    teacher = record.model("teacher").quality
    assert teacher.value > 0.8 > record.task.majority
    for name in ("tiny", "distil", "albert"):
        where = folder / name / "seed-0" / "model"
        model = AutoModelForMultipleChoice.from_pretrained(where)
        assert type(load(where)[0]) is type(model)
        assert record.model(name).layer_distances
    assert run_command(predict, PredictConfig, arguments=_readme_example(folder / "tiny", "swag")) == 0
    answer = json.loads(re.findall(r"^{.*}$", capsys.readouterr().out, flags=re.MULTILINE)[-1])
    assert answer["answer"] == ["It creaks.", "It sings."][answer["choice"]]


def test_windows_are_for_questions(
    tmp_path: Path, choices: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = quick(tmp_path, choices, encoder, "--student", "tiny", "--stride", "4")
    assert run_command(main, RunConfig, arguments=options) == 2
    assert "--stride 4 is for questions" in capsys.readouterr().err
