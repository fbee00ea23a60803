"""The model folder: it loads anywhere with the same logits, or says what is wrong; it never harms what is there."""

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertTokenizerFast,
    PretrainedConfig,
    PreTrainedModel,
)

from common.artifact import load, save, verify
from common.card import CardText
from common.errors import UserError
from distill.measure import weight_bytes
from students.build import build_student
from students.presets import student_preset

CARD = CardText(
    title="reviews: tiny",
    description="A small encoder.",
    task="reviews",
    teacher="a BERT of 2 layers",
    quality={"accuracy (evaluate, n = 872)": 0.91234},
)
NAMES = {"id2label": {0: "bad", 1: "good", 2: "odd | pipe"}, "label2id": {"bad": 0, "good": 1, "odd | pipe": 2}}


@pytest.fixture
def model(tiny_bert: Callable[..., PreTrainedModel]) -> PreTrainedModel:
    return tiny_bert(**NAMES)


@pytest.fixture
def folder(model: PreTrainedModel, tiny_tokenizer: BertTokenizerFast, tmp_path: Path) -> Path:
    save(model, tiny_tokenizer, tmp_path / "model", card=CARD)
    return tmp_path / "model"


def read_config(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text())


@pytest.mark.parametrize("student", ["tiny", "distil", "albert"])
def test_a_student_loads_with_auto_classes_and_answers_the_same(
    student: str, model: PreTrainedModel, tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    made = build_student(student_preset(student, model.config), model, seed=1)
    save(made, tiny_tokenizer, tmp_path / "s", card=CARD)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "s")
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "s")
    texts, pairs = ["a good film", "bad"], ["great story, poor plot", "fine"]
    batch = tokenizer(texts, pairs, padding=True, return_tensors="pt")
    with torch.inference_mode():
        torch.testing.assert_close(loaded(**batch).logits, made(**batch).logits, rtol=0, atol=0)
    assert loaded.config.id2label == NAMES["id2label"]
    assert tokenizer(texts, pairs)["input_ids"] == tiny_tokenizer(texts, pairs)["input_ids"]
    verify(tmp_path / "s", made, batch)


def test_load_gives_the_model_ready_to_use(folder: Path, model: PreTrainedModel) -> None:
    loaded, tokenizer = load(folder)
    assert not loaded.training
    assert type(loaded) is type(model)
    assert all(torch.equal(value, loaded.state_dict()[name]) for name, value in model.state_dict().items())
    assert tokenizer("good film")["input_ids"]
    assert weight_bytes(folder) == (folder / "model.safetensors").stat().st_size > 4 * model.num_parameters()


def test_the_folder_holds_no_pickle_and_says_what_it_is(folder: Path, model: PreTrainedModel) -> None:
    names = {path.name for path in folder.iterdir()}
    assert names == {*json.loads((folder / "distillery.json").read_text())["files"]}
    assert {path.suffix for path in folder.iterdir()} <= {".json", ".safetensors", ".md", ".txt"}
    card = (folder / "README.md").read_text()
    for text in ("reviews: tiny", "a BERT of 2 layers", "872) | 0.9123 |", f"{model.num_parameters():,} parameters"):
        assert text in card
    assert "bad, good, odd \\| pipe" in card
    assert "# license: name yours" in card
    assert '\npython -m distill.predict --model "path of this folder" "a text"\n' in card


def test_the_tokenizer_says_the_task_s_length_whatever_was_tokenised_last(
    model: PreTrainedModel, tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    tokenizer = BertTokenizerFast.from_pretrained(tiny_tokenizer.name_or_path)
    tokenizer("a good film", truncation=True, max_length=64)
    save(model, tokenizer, tmp_path / "model", card=CARD, max_length=24)
    assert json.loads((tmp_path / "model" / "tokenizer.json").read_text())["truncation"]["max_length"] == 24
    again = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert len(again("good " * 50)["input_ids"]) == 52


def test_labels_are_written_even_where_they_are_the_default(
    tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    save(tiny_bert(labels=2), tiny_tokenizer, tmp_path / "model", card=CARD)
    assert read_config(tmp_path / "model")["id2label"] == {"0": "LABEL_0", "1": "LABEL_1"}
    assert load(tmp_path / "model")[0].config.num_labels == 2


def test_verify_notices_other_weights(folder: Path, model: PreTrainedModel, tiny_tokenizer: BertTokenizerFast) -> None:
    batch = tiny_tokenizer(["good"], return_tensors="pt")
    model.train()
    verify(folder, model, batch)
    assert model.training
    with torch.no_grad():
        model.classifier.bias += 1e-3  # type: ignore[operator]
    with pytest.raises(UserError, match=r"differ by up to 0\.001"):
        verify(folder, model, batch)


def edit_tensors(folder: Path, edit: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    edit(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def cut_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def remove_labels(folder: Path) -> None:
    config = read_config(folder)
    del config["id2label"]
    (folder / "config.json").write_text(json.dumps(config))


def change_type(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps(read_config(folder) | {"model_type": "brt"}))


def widen(tensors: dict[str, torch.Tensor]) -> None:
    tensors["classifier.weight"] = torch.zeros(4, 32)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "lacks model.safetensors.*Pickled"),
    "no config": (lambda f: (f / "config.json").unlink(), "lacks config.json"),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "lacks the tokenizer"),
    "cut weights": (cut_weights, "damaged or cut off"),
    "empty weights": (lambda f: (f / "model.safetensors").write_bytes(b""), "damaged or cut off"),
    "weights of another kind": (lambda f: (f / "model.safetensors").write_text("x" * 500), "damaged or cut off"),
    "cut config": (lambda f: (f / "config.json").write_text('{"model_type": "be'), "config.json is damaged"),
    "list as config": (lambda f: (f / "config.json").write_text("[]"), "no labels"),
    "no labels": (remove_labels, "has no labels"),
    "unknown type": (change_type, "the configuration cannot be read"),
    "cut tokenizer": (lambda f: (f / "tokenizer.json").write_text('{"version": '), "the tokenizer cannot be read"),
    "missing tensor": (
        lambda f: edit_tensors(f, lambda t: t.pop("bert.pooler.dense.bias")),
        "bert.pooler.dense.bias is missing",
    ),
    "superfluous tensor": (
        lambda f: edit_tensors(f, lambda t: t.update(more=torch.zeros(1))),
        "more is not part of this model",
    ),
    "other shape": (lambda f: edit_tensors(f, widen), r"classifier.weight is \[4, 32\] instead of \[3, 32\]"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_folder_is_refused_by_name(damage: str, folder: Path) -> None:
    harm, message = DAMAGE[damage]
    harm(folder)
    with pytest.raises(UserError, match=message):
        load(folder)


def test_what_is_no_model_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a folder"):
        load(tmp_path / "nothing")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="is not a model folder"):
        load(tmp_path)


def test_a_folder_with_something_else_is_never_overwritten(
    folder: Path, model: PreTrainedModel, tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="holds a model already"):
        save(model, tiny_tokenizer, folder, card=CARD)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"something else \(notes.txt\)"):
        save(model, tiny_tokenizer, folder, card=CARD, replace=True)
    assert (folder / "notes.txt").read_text() == "mine"
    other = tmp_path / "thesis"
    (other / "empty").mkdir(parents=True)
    with pytest.raises(UserError, match="something else"):
        save(model, tiny_tokenizer, other, card=CARD, replace=True)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="is a file"):
        save(model, tiny_tokenizer, tmp_path / "file", card=CARD, replace=True)


def test_a_saved_model_is_replaced_when_asked(
    folder: Path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer: BertTokenizerFast
) -> None:
    newer = tiny_bert(seed=1, layers=1, **NAMES)
    save(newer, tiny_tokenizer, folder, card=CARD, replace=True, files={"stages.txt": "prediction"})
    assert load(folder)[0].config.num_hidden_layers == 1
    assert (folder / "stages.txt").read_text() == "prediction"
    save(newer, tiny_tokenizer, folder, card=CARD, replace=True)
    assert not (folder / "stages.txt").exists()


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        SafetensorError("I/O: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_leaves_the_older_folder_and_nothing_else(
    error: Exception,
    folder: Path,
    model: PreTrainedModel,
    tiny_tokenizer: BertTokenizerFast,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(self: PretrainedConfig, target: Path, **options: Any) -> None:
        (Path(target) / "model.safetensors").write_bytes(b"half")
        raise error

    monkeypatch.setattr(type(model), "save_pretrained", full)
    for target in (folder, folder.with_name("second")):
        with pytest.raises(UserError, match="no space left on the disk"):
            save(model, tiny_tokenizer, target, card=CARD, replace=True)
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
