"""The objective against transformers' own loss, the sizes against the published counts, first weights, figures."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from toy_text import small_config, small_corpus
from transformers import BertConfig, BertForPreTraining, BertModel

from teacher.examples import draw_examples
from teacher.history import read_rows
from teacher.masked_language import MlmNsp
from teacher.objectives import evaluate_pretraining
from teacher.pairs import draw_pairs
from teacher.pieces import Pieces
from teacher.pretrain import pretrain
from teacher.pretrain_config import PretrainConfig, bert_config
from teacher.pretrain_data import collate, held_out_batches, training_batches, unigram_loss
from teacher.pretrain_objective import fresh_model, masked_mean
from teacher.pretrain_summary import lessons, served_tokens
from teacher.pretrain_text import PretrainData

COUNTS = {"tiny": 4_385_920, "mini": 11_170_560, "small": 28_763_648, "medium": 41_373_184, "base": 109_482_240}


def _fresh(config: BertConfig, seed: int) -> BertForPreTraining:
    return fresh_model(BertForPreTraining, config, seed)


@pytest.fixture(scope="module")
def data() -> PretrainData:
    return small_corpus()


@pytest.fixture
def batch(data: PretrainData) -> dict[str, Tensor]:
    pairs = draw_pairs(data.learned, length=32, seed=0)
    return collate(data.learned, pairs, range(12), data.tokenizer, np.random.default_rng(0), 32)


def _their_loss(model: BertForPreTraining, batch: dict[str, Tensor]) -> Tensor:
    labels = torch.full(batch["input_ids"].shape, -100)
    labels.view(-1)[batch["positions"]] = batch["labels"]
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
    return model(**inputs, labels=labels, next_sentence_label=batch["next_labels"]).loss


def test_loss_and_gradients_equal_those_of_transformers(batch: dict[str, Tensor]) -> None:
    ours = MlmNsp(_fresh(small_config(60), 0))
    theirs = _fresh(small_config(60), 0)
    terms = ours(batch)
    loss = sum(ours.weights[name] * term for name, term in terms.items())
    expected = _their_loss(theirs, batch)
    assert set(terms) == {"mlm", "nsp"}
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    loss.backward()
    expected.backward()
    for (name, one), (_, two) in zip(ours.model.named_parameters(), theirs.named_parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad, atol=1e-6, rtol=1e-4, msg=name)


def test_a_masked_mean_is_the_released_formula() -> None:
    losses, weights = torch.tensor([1.0, 2.0, 6.0]), torch.tensor([1.0, 1.0, 0.0])
    assert float(masked_mean(losses, weights)) == pytest.approx(3 / (2 + 1e-5))
    assert float(masked_mean(losses)) == pytest.approx(9 / (3 + 1e-5))
    assert float(masked_mean(torch.zeros(0))) == 0.0


@pytest.mark.parametrize(("size", "count"), COUNTS.items())
def test_sizes_have_the_published_parameters(size: str, count: int) -> None:
    with torch.device("meta"):
        model = BertModel(bert_config(PretrainConfig(size=size), vocabulary=30522))
    assert sum(parameter.numel() for parameter in model.parameters()) == count


def test_first_weights_are_a_normal_cut_at_two_deviations() -> None:
    model = _fresh(bert_config(PretrainConfig(size="tiny"), vocabulary=500), 0)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2:
            assert parameter.abs().max() <= 0.04, name
        else:
            assert (parameter == (1.0 if "LayerNorm.weight" in name else 0.0)).all(), name
    weight = model.bert.encoder.layer[0].intermediate.dense.weight
    # A standard normal cut at +-2 has the deviation 0.8796.
    assert weight.std().item() == pytest.approx(0.02 * 0.8796, rel=0.01)
    assert (model.bert.embeddings.word_embeddings.weight[0] == 0).all()
    assert model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight


def test_figures_equal_those_computed_in_one_go(data: PretrainData) -> None:
    objective = MlmNsp(_fresh(small_config(60), 0)).train()
    batches = list(held_out_batches(data, length=32, seed=0, batch_size=5))
    found = evaluate_pretraining(objective, batches, "fp32")
    assert objective.training
    with torch.no_grad():
        outputs = [objective.logits(batch) for batch in batches]
    scores, relations = (torch.cat(part) for part in zip(*outputs, strict=True))
    labels, following = (torch.cat([batch[name] for batch in batches]) for name in ("labels", "next_labels"))
    assert found["mlm_loss"] == pytest.approx(float(torch.nn.functional.cross_entropy(scores, labels)), rel=1e-5)
    assert found["mlm_accuracy"] == pytest.approx(float((scores.argmax(-1) == labels).float().mean()))
    assert found["nsp_accuracy"] == pytest.approx(float((relations.argmax(-1) == following).float().mean()))
    share = float(following.float().mean())
    assert found["nsp_majority"] == pytest.approx(max(share, 1 - share))
    assert (found["masked"], found["pairs"]) == (len(labels), len(following))


def test_a_batch_hides_what_its_labels_say(data: PretrainData, batch: dict[str, Tensor]) -> None:
    pairs = draw_pairs(data.learned, length=32, seed=0)
    restored = batch["input_ids"].clone()
    restored.view(-1)[batch["positions"]] = batch["labels"]
    for row in range(12):
        start_a, end_a, start_b, end_b = pairs.spans[row].tolist()
        whole = [2, *data.learned.ids[start_a:end_a].tolist(), 3, *data.learned.ids[start_b:end_b].tolist(), 3]
        real = batch["attention_mask"][row].bool()
        assert restored[row][real].tolist() == whole
        assert (restored[row][~real] == 0).all()
        assert int(batch["token_type_ids"][row].sum()) == end_b - start_b + 1
    assert (batch["input_ids"] == 4).any()
    assert batch["next_labels"].tolist() == pairs.labels[:12].tolist()


def test_masks_follow_from_seed_and_step(data: PretrainData) -> None:
    pairs = draw_examples(data.learned, "nsp", length=32, seed=0, wanted=100)
    batches = training_batches(data, pairs, batch_size=8, length=32, seed=0)
    one, again, next_step = batches.collate([1, 2], 7), batches.collate([1, 2], 7), batches.collate([1, 2], 8)
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not torch.equal(one["input_ids"], next_step["input_ids"])
    other = training_batches(data, pairs, batch_size=8, length=32, seed=1).collate([1, 2], 7)
    assert not torch.equal(one["input_ids"], other["input_ids"])


def test_passes_are_as_many_as_the_run_needs(data: PretrainData) -> None:
    once = len(draw_examples(data.learned, "nsp", length=32, seed=0, wanted=1))
    assert once == len(draw_pairs(data.learned, length=32, seed=0))
    assert len(draw_examples(data.learned, "nsp", length=32, seed=0, wanted=3 * once)) >= 2.5 * once
    assert len(draw_examples(data.learned, "nsp", length=32, seed=0, wanted=10**6)) <= 12 * once


def test_tokens_served_are_the_lengths_of_the_batches(data: PretrainData) -> None:
    pairs = draw_examples(data.learned, "nsp", length=32, seed=0, wanted=1)
    batches = training_batches(data, pairs, batch_size=8, length=32, seed=0)
    total = int(pairs.lengths.sum())
    assert served_tokens(batches, batches.steps_per_epoch) == total
    first = sum(int(pairs.lengths[rows].sum()) for rows in batches.plan(1)[:2])
    assert served_tokens(batches, batches.steps_per_epoch + 2) == total + first


def test_unigram_loss_is_the_entropy() -> None:
    pieces = Pieces(ids=np.array([5, 5, 5, 7]), sentences=np.array([0, 4]), documents=np.array([0, 1]))
    assert unigram_loss(pieces) == pytest.approx(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))


def test_a_collapsed_run_is_named() -> None:
    learned = {"mlm_loss": 3.0, "nsp_accuracy": 0.8, "nsp_majority": 0.6}
    assert lessons(learned, 6.0) == []
    assert "no context was learned" in lessons(learned | {"mlm_loss": 5.95}, 6.0)[0]
    assert "next sentence" in lessons(learned | {"nsp_accuracy": 0.6}, 6.0)[0]


def test_it_learns_what_context_tells(tmp_path: Path) -> None:
    """A document repeats one word: its context gives a masked piece away, and whether B is from elsewhere."""
    words = ["ba", "de", "fi", "go", "ku", "la", "me", "ni"]
    line = "{0} {0} {0} {0}.\n"
    (tmp_path / "text.txt").write_text("\n".join(line.format(words[n % 8]) * 8 for n in range(160)), encoding="utf-8")
    config = PretrainConfig(
        corpus=str(tmp_path / "text.txt"),
        size="tiny",
        vocabulary=64,
        length=32,
        steps=120,
        batch_size=16,
        learning_rate=3e-3,
        precision="fp32",
    )
    folder = pretrain(config, tmp_path / "out")
    summary = json.loads((folder / "pretraining.json").read_text(encoding="utf-8"))
    assert summary["held_out"]["mlm_loss"] < 0.5 * summary["unigram_loss"]
    assert not any("no context" in note for note in summary["notes"])
    assert read_rows(folder / "history.jsonl")[-1].step == 120
