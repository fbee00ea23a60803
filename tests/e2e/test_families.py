"""The main command with teachers of other families, and their tokenizers."""

from pathlib import Path

import pytest
import torch
from e2e.conftest import quick
from families import tiny_config
from toy_tokenizers import byte_level, unigram
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from common.command import run_command
from distill.config import RunConfig
from distill.general import main as general
from distill.general_config import GeneralConfig
from distill.run import main
from reports.record import Record


def _encoder(kind: str, folder: Path, **changes: object) -> Path:
    folder.mkdir()
    tokenizer = byte_level(folder) if kind == "roberta" else unigram(folder)
    config = tiny_config(kind, len(tokenizer))
    for name, value in {"pad_token_id": 1, "num_hidden_layers": 4, **changes}.items():
        setattr(config, name, value)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        AutoModel.from_config(config).save_pretrained(folder)
    return folder


def _run(tmp_path: Path, *options: object) -> None:
    assert run_command(main, RunConfig, arguments=[str(option) for option in options]) == 0


def test_students_of_a_roberta_are_cut_out_of_it_and_stand_alone(tmp_path: Path, reviews: Path) -> None:
    teacher = _encoder("roberta", tmp_path / "teacher")
    _run(tmp_path, *quick(tmp_path, reviews, teacher, "--student", "tiny,distil,albert", "--no-twins"))
    folder = tmp_path / "runs" / "reviews-tiny-distil-albert"
    record = Record.load(folder / "record.json")
    assert "cut out of" in record.model("tiny").start
    assert "copied" in record.model("distil").start
    assert record.model("tiny").layer_distances[1].attention is not None
    assert record.model("teacher").architecture["family"] == "roberta"
    for name in ("tiny", "distil", "albert"):
        where = folder / name / "seed-0" / "model"
        model = AutoModelForSequenceClassification.from_pretrained(where).eval()
        tokenizer = AutoTokenizer.from_pretrained(where)
        assert (model.config.pad_token_id, model.config.bos_token_id, model.config.eos_token_id) == (1, 0, 2)
        assert model.config.max_position_embeddings == 64
        inputs = tokenizer(
            ["the film is good", "a bad film, a poor and boring story"], padding=True, return_tensors="pt"
        )
        with torch.no_grad():
            assert model(**inputs).logits.isfinite().all()


def test_what_a_deberta_cannot_give_is_said_at_the_start_and_in_the_record(
    tmp_path: Path, reviews: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    teacher = _encoder("deberta-v2", tmp_path / "teacher")
    _run(tmp_path, *quick(tmp_path, reviews, teacher, "--student", "tiny", "--no-twins"))
    record = Record.load(tmp_path / "runs" / "reviews-tiny" / "record.json")
    said = capsys.readouterr().out
    for words in ("table of pieces alone", "Attention scores of DeBERTa"):
        assert any(words in note for note in record.notes)
        assert said.index(words) < said.index("teacher: accuracy")
    intermediate = next(stage for stage in record.model("tiny").stages if stage.name == "intermediate")
    assert "relations" in intermediate.losses
    assert "relations of queries, keys and values are compared instead" in intermediate.description
    assert record.model("tiny").start == "the teacher's table of pieces; all else random"
    assert all(distance.attention is None for distance in record.model("tiny").layer_distances)


def test_a_student_is_distilled_on_text_from_a_roberta(tmp_path: Path, reviews: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(f"the film is good and the plot is number {index}." for index in range(60)))
    teacher = _encoder("roberta", tmp_path / "teacher")
    out = tmp_path / "general"
    options = ["--teacher", teacher, "--text", text, "--out", out, "--steps", 3, "--student", "tiny", "--length", 16]
    assert run_command(general, GeneralConfig, arguments=[*map(str, options), "--precision", "fp32"]) == 0
    assert AutoModel.from_pretrained(out).config.model_type == "bert"
    _run(
        tmp_path,
        *quick(tmp_path, reviews, teacher, "--student", "tiny", "--student-from", out, "--no-twins"),
        "--max-length",
        32,
    )


def test_students_have_a_tokenizer_of_their_own(tmp_path: Path, reviews: Path, tiny_tokenizer) -> None:
    teacher = _encoder("roberta", tmp_path / "teacher")
    tiny_tokenizer.save_pretrained(tmp_path / "pieces")
    text = ["--text", "task", "--loss-weights", "attention=0"]
    options = ["--student", "tiny", "--student-tokenizer", tmp_path / "pieces", "--no-twins", *text]
    _run(tmp_path, *quick(tmp_path, reviews, teacher, *options))
    folder = tmp_path / "runs" / "reviews-tiny"
    record = Record.load(folder / "record.json")
    assert any("Students read texts in the" in note for note in record.notes)
    assert [stage.name for stage in record.model("tiny").stages] == ["general", "intermediate", "prediction"]
    assert record.model("tiny").layer_distances == ()
    where = folder / "tiny" / "seed-0" / "model"
    tokenizer = AutoTokenizer.from_pretrained(where)
    assert tokenizer.get_vocab() == tiny_tokenizer.get_vocab()
    assert AutoModelForSequenceClassification.from_pretrained(where).config.vocab_size == len(tiny_tokenizer)
    # Its own folder has a vocabulary that is not the teacher's either, and all losses on hidden states.
    more = ["--student", "tiny", "--student-from", where, "--no-twins", "--recipe", "pkd,distil", "--name", "again"]
    _run(tmp_path, *quick(tmp_path, reviews, teacher, *more))
    assert any("Students read texts in the" in note for note in Record.load(tmp_path / "runs/again/record.json").notes)


@pytest.mark.parametrize(("recipe", "loss"), [("tiny", "attention"), ("minilmv2", "relations")])
def test_losses_between_pieces_are_refused_with_two_tokenizers(
    recipe: str, loss: str, tmp_path: Path, reviews: Path, tiny_tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    teacher = _encoder("roberta", tmp_path / "teacher")
    tiny_tokenizer.save_pretrained(tmp_path / "pieces")
    options = ["--student", "tiny", "--student-tokenizer", tmp_path / "pieces", "--recipe", recipe]
    arguments = [str(option) for option in quick(tmp_path, reviews, teacher, *options)]
    assert run_command(main, RunConfig, arguments=arguments) == 2
    said = capsys.readouterr().err
    assert f"the loss {loss} cannot be had with two tokenizers" in said
    assert f"--loss-weights {loss}=0" in said
    assert not (tmp_path / "runs").exists()


def test_the_teachers_own_tokenizer_is_no_second_one(tmp_path: Path, reviews: Path) -> None:
    teacher = _encoder("roberta", tmp_path / "teacher")
    options = ["--student", "tiny", "--student-tokenizer", teacher, "--no-twins"]
    _run(tmp_path, *quick(tmp_path, reviews, teacher, *options))
    record = Record.load(tmp_path / "runs" / "reviews-tiny" / "record.json")
    assert not any("Students read" in note for note in record.notes)
    assert record.model("tiny").layer_distances


def test_augmentation_by_a_vocabulary_without_words_is_refused(
    tmp_path: Path, reviews: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    teacher = _encoder("roberta", tmp_path / "teacher")
    arguments = [str(option) for option in quick(tmp_path, reviews, teacher, "--student", "tiny", "--augment", "1")]
    assert run_command(main, RunConfig, arguments=arguments) == 2
    assert "--augment takes its words from a WordPiece vocabulary" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
