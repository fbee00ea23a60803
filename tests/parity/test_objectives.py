"""Every pretraining objective against transformers' own losses with the same weights, and its figures and folder."""

import contextlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional
from toy_text import WORDS, small_config, small_corpus
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoTokenizer,
    BertForPreTraining,
    ElectraForMaskedLM,
    ElectraForPreTraining,
)

from teacher import objectives
from teacher import pretrain as command
from teacher.attention import use_training_attention
from teacher.electra import electra_config, fill_in, sample
from teacher.examples import draw_examples
from teacher.loop import train
from teacher.loop_config import LoopConfig
from teacher.objectives import OBJECTIVES, evaluate_pretraining
from teacher.pretrain import pretrain
from teacher.pretrain_config import PretrainConfig, bert_config
from teacher.pretrain_data import collate, held_out_batches, training_batches
from teacher.pretrain_objective import INPUTS, PretrainObjective
from teacher.pretrain_text import PretrainData


def _objective(name: str) -> PretrainObjective:
    """With weights ten times as large as fresh ones, so that losses differ from those of a uniform guess."""
    objective = OBJECTIVES[name].fresh(small_config(25), 0, generator_width=0.5)
    with torch.no_grad():
        for parameter in objective.parameters():
            if parameter.ndim > 1:
                parameter.mul_(10)
    return objective


@pytest.fixture(scope="module")
def data() -> PretrainData:
    return small_corpus()


def _batch(data: PretrainData, name: str, rows: int = 12) -> dict[str, Tensor]:
    kind = OBJECTIVES[name]
    examples = draw_examples(data.learned, kind.examples, length=32, seed=0, wanted=1)
    rng = np.random.default_rng(0)
    options = {} if kind.masked else {"masks": None}
    return collate(data.learned, examples, range(rows), data.tokenizer, rng, 32, **options)


def _scattered(batch: dict[str, Tensor]) -> Tensor:
    labels = torch.full(batch["input_ids"].shape, -100)
    labels.view(-1)[batch["positions"]] = batch["labels"]
    return labels


def _inputs(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: batch[name] for name in INPUTS}


def _assert_equal_gradients(objective: PretrainObjective, ours: Tensor, theirs: Tensor) -> None:
    parameters = [entry for entry in objective.parameters() if entry.requires_grad]
    found = [torch.autograd.grad(loss, parameters, allow_unused=True, retain_graph=True) for loss in (ours, theirs)]
    assert sum(gradient is not None for gradient in found[0]) > 10
    for own, other in zip(*found, strict=True):
        assert (own is None) == (other is None)
        if own is not None:
            assert torch.allclose(own, other, atol=1e-5 * float(other.abs().max()) + 1e-7)


@pytest.mark.parametrize("name", ["mlm", "mlm+sop", "mlm+nsp"])
def test_masked_losses_and_gradients_equal_those_of_transformers(data: PretrainData, name: str) -> None:
    objective, batch = _objective(name), _batch(data, name)
    terms = objective(batch)
    pairs = isinstance(objective.model, BertForPreTraining)
    extra = {"next_sentence_label": batch["next_labels"]} if pairs else {}
    theirs = objective.model(**_inputs(batch), labels=_scattered(batch), **extra).loss
    ours = sum(objective.weights[term] * value for term, value in terms.items())
    assert float(ours.detach()) == pytest.approx(float(theirs.detach()), rel=1e-5)
    _assert_equal_gradients(objective, ours, theirs)
    assert set(terms) == set(name.split("+"))


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("fast", [True, False])
def test_left_to_right_equals_a_bert_decoder(data: PretrainData, padded: bool, fast: bool) -> None:
    """With and without padding: a batch without any comes to the attention without a mask."""
    batch = _batch(data, "ltr")
    if not padded:
        whole = batch["attention_mask"].all(dim=1)
        batch = {name: tensor[whole] for name, tensor in batch.items()}
        assert len(batch["input_ids"]) > 2
    assert bool(batch["attention_mask"].all()) != padded
    reference, objective = _objective("ltr"), _objective("ltr")
    assert reference.model.config.is_decoder
    if fast:
        use_training_attention(objective.model)
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    theirs = reference.model(**_inputs(batch), labels=labels).loss
    ours = objective(batch)["ltr"]
    assert float(ours.detach()) == pytest.approx(float(theirs.detach()), rel=1e-5)
    assert abs(float(ours.detach()) - math.log(25)) > 0.2
    theirs.backward()
    ours.backward()
    for own, other in zip(objective.parameters(), reference.parameters(), strict=True):
        if other.grad is not None:
            assert torch.allclose(own.grad, other.grad, atol=1e-4 * float(other.grad.abs().max()) + 1e-7)
    with torch.no_grad():
        changed = batch["input_ids"].clone()
        changed[:, 8:] = 9
        states, others = (
            objective.model.bert(input_ids=ids, attention_mask=batch["attention_mask"], use_cache=False)[0]
            for ids in (batch["input_ids"], changed)
        )
    assert torch.allclose(states[:, :8], others[:, :8], atol=1e-5)
    assert not torch.allclose(states[:, 8], others[:, 8], atol=1e-2)


def test_electra_equals_both_models_of_transformers(data: PretrainData) -> None:
    objective, batch = _objective("rtd"), _batch(data, "rtd", rows=48)
    torch.manual_seed(5)
    terms = objective(batch)
    guessed = objective.generator(**_inputs(batch), labels=_scattered(batch))
    torch.manual_seed(5)
    filled, replaced = fill_in(batch, sample(guessed.logits.flatten(0, 1)[batch["positions"]]))
    found = objective.model(**_inputs(batch) | {"input_ids": filled}, labels=replaced.long())
    assert float(terms["generator"].detach()) == pytest.approx(float(guessed.loss.detach()), rel=1e-5)
    assert float(terms["rtd"].detach()) == pytest.approx(float(found.loss.detach()), rel=1e-5)
    assert objective.weights == {"generator": 1.0, "rtd": 50.0}
    assert 0 < int(replaced.sum()) < len(batch["positions"])
    ours = terms["generator"] + 50 * terms["rtd"]
    _assert_equal_gradients(objective, ours, guessed.loss + 50 * found.loss)
    # No gradient of the discriminator's loss passes through the sampled pieces into the generator's own weights.
    own = [objective.generator.electra.embeddings_project.weight, objective.generator.generator_lm_head.bias]
    assert torch.autograd.grad(terms["rtd"], own, allow_unused=True) == (None, None)


def test_electra_shares_its_embeddings_and_has_a_narrow_generator() -> None:
    objective = OBJECTIVES["rtd"].fresh(small_config(25), 0, generator_width=0.25)
    generator, model = objective.generator, objective.model
    assert isinstance(generator, ElectraForMaskedLM) and isinstance(model, ElectraForPreTraining)
    table = model.electra.embeddings.word_embeddings.weight
    assert generator.electra.embeddings is model.electra.embeddings and generator.generator_lm_head.weight is table
    assert (generator.config.hidden_size, generator.config.num_attention_heads) == (8, 1)
    assert generator.electra.embeddings_project.weight.shape == (8, 32)
    assert generator.config.num_hidden_layers == model.config.num_hidden_layers == 2
    assert sum(parameter is table for parameter in objective.parameters()) == 1
    for size, width, hidden, heads in (("base", 1 / 3, 256, 4), ("mini", 0.25, 64, 1), ("large", 0.25, 256, 4)):
        config = electra_config(bert_config(PretrainConfig(size=size), 100), width)
        assert (config.hidden_size, config.num_attention_heads, config.intermediate_size) == (hidden, heads, 4 * hidden)


def test_samples_have_the_odds_of_the_softmax() -> None:
    """Over a million draws; a piece without any odds is never drawn."""
    scores = torch.tensor([0.5, 2.0, -1.0, -torch.inf, 1.0, 0.0])
    counts = torch.zeros(6, dtype=torch.float64)
    for _ in range(10):
        counts += torch.bincount(sample(scores.expand(100_000, 6)), minlength=6)
    odds = scores.double().softmax(0)
    assert counts[3] == 0
    kept = odds > 0
    assert float(((counts - 1e6 * odds)[kept] ** 2 / (1e6 * odds[kept])).sum()) < 25


def test_filling_in_calls_equal_pieces_original() -> None:
    batch = {"input_ids": torch.tensor([[2, 4, 9, 3], [2, 8, 4, 3]]), "positions": torch.tensor([1, 6])}
    filled, replaced = fill_in(batch | {"labels": torch.tensor([5, 7])}, torch.tensor([6, 7]))
    assert filled.tolist() == [[2, 6, 9, 3], [2, 8, 7, 3]]
    assert replaced.nonzero().tolist() == [[0, 1]]


def _one_go(objective: PretrainObjective, name: str, batches: list[dict[str, Tensor]]) -> dict[str, float]:
    """Loss and accuracy of the objective's own question, over all batches at once."""
    answers: list[tuple[Tensor, Tensor]] = []
    for batch in batches:
        found = objective.logits(batch)
        if name == "mlm":
            answers.append((found, batch["labels"]))
        else:
            answers.append((found[1], batch["next_labels"]) if name == "sop" else found)
    logits, labels = (torch.cat(part) for part in zip(*answers, strict=True))
    right = float((logits.argmax(-1) == labels).double().mean())
    return {f"{name}_loss": float(functional.cross_entropy(logits, labels)), f"{name}_accuracy": right}


@pytest.mark.parametrize(("name", "term"), [("mlm", "mlm"), ("mlm+sop", "sop"), ("ltr", "ltr")])
def test_figures_equal_those_computed_in_one_go(data: PretrainData, name: str, term: str) -> None:
    objective = _objective(name).train()
    options = {} if objective.masked else {"masks": None}
    batches = list(held_out_batches(data, length=32, seed=0, batch_size=5, kind=objective.examples, **options))
    figures = evaluate_pretraining(objective, batches, "fp32")
    assert objective.training
    with torch.no_grad():
        expected = _one_go(objective, term, batches)
    assert {key: figures[key] for key in expected} == pytest.approx(expected, rel=1e-5)
    assert figures["pairs" if name == "mlm+sop" else "sequences"] == sum(len(batch["input_ids"]) for batch in batches)
    assert not any(key.startswith("nsp") for key in figures)
    if name == "ltr":
        assert figures["ltr_perplexity"] == pytest.approx(math.exp(expected["ltr_loss"]), rel=1e-5)


def test_a_loss_beyond_all_bounds_has_an_infinite_perplexity() -> None:
    sums = {"ltr_loss": 9000.0, "ltr_accuracy": 0, "predicted": 10, "sequences": 1}
    assert _objective("ltr").figures(sums)["ltr_perplexity"] == math.inf


def test_figures_are_computed_where_training_is(data: PretrainData, monkeypatch: pytest.MonkeyPatch) -> None:
    objective = _objective("mlm")
    monkeypatch.setattr(objectives, "ranks", lambda: SimpleNamespace(device=torch.device("meta")))
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())
    seen: list[str] = []
    monkeypatch.setattr(objective, "sums", lambda batch: seen.append(batch["labels"].device.type) or {"masked": 1})
    monkeypatch.setattr(objective, "figures", dict)
    moved: list[str] = []
    monkeypatch.setattr(objective, "to", lambda device: moved.append(str(device)) or objective)
    assert evaluate_pretraining(objective, [_batch(data, "mlm")], "fp32") == {"masked": 1}
    assert (moved, seen) == (["meta", "cpu"], ["meta"])


def test_figures_of_replaced_pieces(data: PretrainData) -> None:
    objective = _objective("rtd")
    batches = list(held_out_batches(data, length=32, seed=0, batch_size=5, kind="segments"))
    figures = evaluate_pretraining(objective, batches, "fp32")
    assert figures == evaluate_pretraining(objective, batches, "fp32"), "samples differ from one evaluation to the next"
    tokens = sum(int(batch["attention_mask"].sum()) for batch in batches)
    assert (figures["tokens"], figures["masked"]) == (tokens, sum(len(batch["labels"]) for batch in batches))
    assert 0 < figures["replaced_share"] <= figures["masked"] / tokens
    assert figures["rtd_majority"] == pytest.approx(1 - figures["replaced_share"])
    with torch.no_grad():
        objective.model.discriminator_predictions.dense_prediction.weight.zero_()
        objective.model.discriminator_predictions.dense_prediction.bias.fill_(-1.0)
    never = evaluate_pretraining(objective, batches, "fp32")
    assert never["rtd_accuracy"] == pytest.approx(never["rtd_majority"])
    share = never["replaced_share"]
    loss = share * math.log(1 + math.e) + (1 - share) * math.log(1 + 1 / math.e)
    assert never["rtd_loss"] == pytest.approx(loss, rel=1e-5)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    documents = ["\n".join(" ".join(rng.choice(WORDS, size=7)).capitalize() + "." for _ in range(6)) for _ in range(40)]
    path = tmp_path_factory.mktemp("text") / "words.txt"
    path.write_text("\n\n".join(documents), encoding="utf-8")
    return path


def _settings(text: Path, **changes: object) -> PretrainConfig:
    small = {"size": "tiny", "vocabulary": 60, "length": 32, "batch_size": 16, "steps": 4, "precision": "fp32"}
    return PretrainConfig(corpus=str(text), **small | {"checkpoint_every": 2} | changes)


LOADED_BY: dict[str, Callable] = {
    "mlm": AutoModelForMaskedLM,
    "mlm+sop": AutoModelForPreTraining,
    "rtd": AutoModelForPreTraining,
    "ltr": AutoModelForCausalLM,
}


@pytest.mark.parametrize("name", LOADED_BY)
def test_the_folder_loads_and_names_its_figures_alone(tmp_path: Path, text: Path, name: str) -> None:
    folder = pretrain(_settings(text, objective=name), tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer("ba be bi", return_tensors="pt")
    assert AutoModel.from_pretrained(folder)(**inputs).last_hidden_state.shape[-1] == 128
    model, info = LOADED_BY[name].from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    assert model.config.hidden_dropout_prob == 0.1
    summary = json.loads((folder / "pretraining.json").read_text(encoding="utf-8"))
    page = (folder / "README.md").read_text(encoding="utf-8")
    for foreign in ("nsp", "next sentence", "random_pair_share"):
        assert foreign not in json.dumps(summary) + page
    assert ("swapped_pair_share" in summary) == (name == "mlm+sop")
    term = {"mlm+sop": "sop"}.get(name, name)
    assert f"{summary['held_out'][f'{term}_accuracy']:.3f}" in page
    if name == "rtd":
        generator, info = AutoModelForMaskedLM.from_pretrained(folder / "generator", output_loading_info=True)
        assert not info["missing_keys"] and generator.config.hidden_size == 32
        assert AutoTokenizer.from_pretrained(folder / "generator").get_vocab() == tokenizer.get_vocab()
        shared = "electra.embeddings.word_embeddings.weight"
        assert torch.equal(generator.state_dict()[shared], model.state_dict()[shared])


def _weights(folder: Path) -> dict[tuple[str, str], Tensor]:
    """Of every model in the folder."""
    files = sorted(folder.rglob("model.safetensors"))
    return {(str(file.relative_to(folder)), name): entry for file in files for name, entry in load_file(file).items()}


@pytest.mark.parametrize(
    "changes",
    [
        {"objective": "rtd"},
        {"masks": "static", "masking": "whole-word", "dupe_factor": 2},
    ],
)
def test_a_resumed_run_ends_with_the_same_bits(
    tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch, changes: dict
) -> None:

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    config = _settings(text, steps=3, dropout=0.1, **changes)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(command, "write_model", stop)
        pretrain(config, tmp_path / "cut")
    assert [path.name for path in (tmp_path / "cut-unfinished" / "training").glob("step-*")] == ["step-2"]
    pretrain(_settings(text, steps=3, dropout=0.1, resume=True, **changes), tmp_path / "cut")
    pretrain(config, tmp_path / "whole")
    one, two = _weights(tmp_path / "cut"), _weights(tmp_path / "whole")
    assert one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("threads", [1, 2])
def test_sampled_pieces_are_the_same_in_every_run(tmp_path: Path, data: PretrainData, threads: int) -> None:
    """Also of a run that goes on, with two halves of a batch in two threads, and whatever torch's generator says."""
    segments = draw_examples(data.learned, "segments", length=32, seed=0, wanted=1)
    batches = training_batches(data, segments, batch_size=16, length=32, seed=0)
    ended: list[list[Tensor]] = []
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for folder, steps in (("whole", (5,)), ("cut", (4, 5))):
            for total in steps:
                torch.manual_seed(100 + len(ended))
                objective = _objective("rtd")
                config = LoopConfig(
                    learning_rate=1e-3,
                    steps=total,
                    schedule="constant",
                    warmup=0.0,
                    precision="fp32",
                    checkpoint_every=3,
                )
                train(objective, batches, config, tmp_path / folder, label="rtd")
            ended.append(list(objective.parameters()))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, two) for one, two in zip(*ended, strict=True))


def test_domain_masking_reads_the_general_text(tmp_path: Path, text: Path) -> None:
    general = tmp_path / "general.txt"
    general.write_text("\n\n".join(["Ba ba ba ba."] * 9), encoding="utf-8")
    config = _settings(text, objective="mlm", masking="domain", general_text=str(general))
    folder = pretrain(config, tmp_path / "model")
    settings = json.loads((folder / "pretraining.json").read_text(encoding="utf-8"))["settings"]
    assert settings["masking"] == "domain" and len(settings["general_fingerprint"]) == 16
    assert "Masking domain, dynamic" in (folder / "README.md").read_text(encoding="utf-8")
    # What is at its default is no setting: folders of earlier versions stay reusable.
    assert "masks" not in settings and "generator_width" not in settings
