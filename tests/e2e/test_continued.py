"""Continued pretraining as a user meets it: an encoder in a folder, text, a folder that everything takes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from e2e.conftest import FILLER
from families import KINDS, tiny_config, tiny_masked_model
from safetensors.torch import load_file
from toy_tokenizers import unigram
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoTokenizer,
    ElectraForPreTraining,
    GPT2Config,
    GPT2LMHeadModel,
)

from common.command import run_command
from common.errors import UserError
from teacher import pretrain as command
from teacher.continued import MaskedPieces, load_continued
from teacher.continued_card import continued_card
from teacher.finetune import FinetuneConfig
from teacher.finetune import main as finetune
from teacher.history import read_rows
from teacher.pretrain import PretrainCommand, main
from teacher.sources import weights_identity

SMALL = "--objective mlm --length 24 --batch-size 8 --steps 6 --precision fp32 --checkpoint-every 2 --resume"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """40 documents; every sentence has one of two words that the tiny tokenizer must spell."""
    rng = np.random.default_rng(0)
    documents = [
        " ".join(" ".join([*rng.choice(FILLER, size=5), rng.choice(["zebra", "quartz"])]) + "." for _ in range(5))
        for _ in range(40)
    ]
    path = tmp_path / "words.txt"
    path.write_text("\n\n".join(documents), encoding="utf-8")
    return path


def _run(source: Path, text: Path, out: Path, *more: str) -> int:
    arguments = ["--from", str(source), "--corpus", str(text), *SMALL.split(), "--out", str(out), *more]
    return run_command(main, PretrainCommand, arguments=arguments)


def _summary(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "pretraining.json").read_text(encoding="utf-8"))


def test_an_encoder_without_a_head_learns_the_text_and_is_taken_by_finetune(
    tmp_path: Path,
    encoder: Path,
    text: Path,
    reviews: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "further"
    assert _run(encoder, text, out, "--learning-rate", "5e-3", "--steps", "40", "--evaluate-every", "20") == 0
    assert "has no head for masked pieces: a new one is trained" in capsys.readouterr().out
    summary = _summary(out)
    assert summary["new_head"] and summary["held_out_before"] is None
    curve = [
        row.values["held-out mlm loss"] for row in read_rows(out / "history.jsonl") if "held-out mlm loss" in row.values
    ]
    assert len(curve) == 2 and curve[1] < curve[0] and curve[1] == pytest.approx(summary["held_out"]["mlm_loss"])
    assert AutoModelForMaskedLM.from_pretrained(out).config.hidden_dropout_prob == 0.1
    # Masked pieces do not train a pooler: it is the one that was there.
    before, after = AutoModel.from_pretrained(encoder), AutoModel.from_pretrained(out)
    assert torch.equal(before.pooler.dense.weight, after.pooler.dense.weight)
    assert not torch.equal(before.encoder.layer[0].output.dense.weight, after.encoder.layer[0].output.dense.weight)
    assert "encoder, pretrained further" in (out / "README.md").read_text(encoding="utf-8")
    arguments = ["--model", str(out), "--task", str(reviews), "--precision", "fp32", "--out", str(tmp_path / "teacher")]
    assert run_command(finetune, FinetuneConfig, arguments=arguments) == 0
    assert "warning: no better than always giving the same answer (0.5000)" in capsys.readouterr().out
    monkeypatch.setattr("teacher.finetune.majority", lambda *_: 0.0)
    assert run_command(finetune, FinetuneConfig, arguments=arguments) == 0
    assert "warning: no better" not in capsys.readouterr().out
    assert _run(encoder, text, out, "--learning-rate", "5e-3", "--steps", "40", "--evaluate-every", "20") == 0
    assert "reused" in capsys.readouterr().out


def test_a_stopped_one_goes_on_to_the_same_weights_with_an_extended_vocabulary(
    tmp_path: Path, encoder: Path, text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--extend-vocabulary", "2", "--dropout", "0.1", "--long-length", "48", "--long-share", "0.4"]

    def stop(_: MaskedPieces, step: int, total: int) -> None:
        if step == 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(MaskedPieces, "at", stop)
        assert _run(encoder, text, tmp_path / "cut", *options) == 130
    assert "vocabulary extended by 2 words" in capsys.readouterr().out
    assert _run(encoder, text, tmp_path / "cut", *options) == 0
    assert "vocabulary extended" not in capsys.readouterr().out
    assert _run(encoder, text, tmp_path / "whole", *options) == 0
    cut, whole = (load_file(tmp_path / name / "model.safetensors") for name in ("cut", "whole"))
    assert cut.keys() == whole.keys() and all(torch.equal(cut[name], whole[name]) for name in cut)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "cut")
    assert tokenizer.tokenize("the zebra") == ["the", "zebra"]
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "cut")
    assert model.get_input_embeddings().num_embeddings == len(tokenizer)


def test_the_card_says_how_long_inputs_were_and_what_was_hidden() -> None:
    settings = {"from": "runs/mini", "batch_size": 8, "accumulation": 2, "length": 128, "long_length": 512}
    held_out = {"mlm_loss": 2.5, "mlm_accuracy": 0.5, "masked": 99}
    figures = {"held_out": held_out, "held_out_before": held_out, "notes": [], "corpus": "words"}
    counts = {"steps": 40, "tokens": 5000, "seconds": 9.0, "parameters": 100, "vocabulary": 200}
    card = continued_card(settings | {"masking": "whole-word"}, figures | counts)
    assert "16 segments of at most\n128 pieces (512 in the last 10% of the steps)" in card
    assert "in\n9 s. Masking whole-word, dynamic; the figures are with pieces hidden at random." in card
    assert "Masking" not in continued_card(settings, figures | counts)


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_that_is_there_is_gone_on_with(tmp_path: Path, kind: str, text: Path, tiny_tokenizer: Any) -> None:
    model = tiny_masked_model(kind, len(tiny_tokenizer))
    source, out = tmp_path / kind, tmp_path / "out"
    model.save_pretrained(source)
    tiny_tokenizer.save_pretrained(source)
    start = load_continued(str(source), seed=0, length=64)
    assert not start.new_head and start.notes == () and start.pooler is None
    for name, parameter in model.named_parameters():
        assert torch.equal(dict(start.model.named_parameters())[name], parameter), name
    assert _run(source, text, out, "--steps", "2") == 0
    summary = _summary(out)
    assert summary["held_out_before"]["masked"] == summary["held_out"]["masked"] > 0
    written = AutoModelForMaskedLM.from_pretrained(out)
    assert type(written) is type(model)
    assert not torch.equal(written.get_output_embeddings().bias, model.get_output_embeddings().bias)
    # Tied before, tied after.
    shared = written.get_output_embeddings().weight.data_ptr() == written.get_input_embeddings().weight.data_ptr()
    assert shared


def test_a_discriminator_gets_a_new_head_and_loses_its_own(tmp_path: Path, tiny_tokenizer: Any) -> None:
    ElectraForPreTraining(tiny_config("electra", len(tiny_tokenizer))).save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    start = load_continued(str(tmp_path), seed=0, length=64)
    assert start.new_head
    assert "has no head for masked pieces" in start.notes[0]
    assert start.notes[1].endswith("are not kept: discriminator_predictions")
    again = load_continued(str(tmp_path), seed=0, length=64)
    assert all(torch.equal(a, b) for a, b in zip(start.model.parameters(), again.model.parameters(), strict=True))


def test_what_cannot_be_gone_on_from_is_refused(
    tmp_path: Path, encoder: Path, text: Path, tiny_tokenizer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=8, n_head=1, vocab_size=200)).save_pretrained(other)
    tiny_tokenizer.save_pretrained(other)
    with pytest.raises(UserError, match="model_type is 'gpt2', one of bert, roberta"):
        load_continued(str(other), seed=0, length=64)
    assert _run(encoder, text, tmp_path / "out", "--length", "200") == 2
    assert "positions for 128, give a --length of at most that" in capsys.readouterr().err
    wrong = ["--objective", "mlm+nsp", "--size", "base", "--cased", "--layers", "2", "--tokenizer", "minilm"]
    assert _run(encoder, text, tmp_path / "out", *wrong) == 2
    message = capsys.readouterr().err
    assert "say --objective mlm" in message
    assert "--size, --tokenizer, --cased, --layers: what is given by --from" in message
    assert run_command(main, PretrainCommand, arguments=["--extend-vocabulary", "9", "--out", str(tmp_path / "x")]) == 2
    assert "nothing to extend without --from" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--activation-checkpointing"], "--activation-checkpointing: transformers has none for models of the type"),
        (["--extend-vocabulary", "9"], "a WordPiece vocabulary was expected"),
    ],
)
def test_what_an_encoder_lacks_is_said_before_the_text_is_read(
    tmp_path: Path,
    text: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    words: str,
) -> None:
    tokenizer = unigram(tmp_path)
    tiny_masked_model("albert", len(tokenizer)).save_pretrained(tmp_path / "albert")
    tokenizer.save_pretrained(tmp_path / "albert")
    monkeypatch.setattr(command, "gather", lambda *_: pytest.fail("the text was read"))
    assert _run(tmp_path / "albert", text, tmp_path / "out", *more) == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.glob("out*"))


def test_other_weights_are_another_start(tmp_path: Path, encoder: Path, text: Path) -> None:
    before = weights_identity(str(encoder))
    model = AutoModel.from_pretrained(encoder)
    with torch.no_grad():
        model.pooler.dense.bias.add_(1.0)
    model.save_pretrained(encoder)
    assert weights_identity(str(encoder)) != before
    assert weights_identity("org/name") == "org/name"
