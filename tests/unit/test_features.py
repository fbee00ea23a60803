"""Frozen features against transformers' own hidden states, and classifiers on them against closed forms."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from toy import toy_task
from transformers import BertModel, BertTokenizerFast, PreTrainedModel

from teacher.features import VIEWS, FrozenClassifier, frozen_states, train_on_states
from teacher.prepare import Prepared, prepare

TEXTS = ("good film", "a", "the plot of this great film is very boring", "not bad")


@pytest.fixture
def encoder(tiny_bert: Callable[..., PreTrainedModel]) -> PreTrainedModel:
    return tiny_bert(layers=5, model_class=BertModel)


@pytest.fixture
def prepared(tiny_tokenizer: BertTokenizerFast) -> Prepared:
    return prepare(toy_task(texts=TEXTS), tiny_tokenizer, 64)


@torch.inference_mode()
def _one_by_one(encoder: PreTrainedModel, prepared: Prepared) -> list[tuple[torch.Tensor, ...]]:
    """transformers' hidden states of each text alone, without padding."""
    return [
        encoder(input_ids=torch.from_numpy(ids)[None], output_hidden_states=True).hidden_states
        for ids in prepared.splits["train"].input_ids
    ]


def test_states_are_means_over_real_pieces_in_the_order_of_the_texts(
    encoder: PreTrainedModel, prepared: Prepared
) -> None:
    states = frozen_states(encoder, prepared, "train")
    expected = np.stack(
        [torch.stack([layer[0].mean(0) for layer in layers]) for layers in _one_by_one(encoder, prepared)]
    )
    assert states.shape == (9, 6, 32)
    np.testing.assert_allclose(states, expected, atol=2e-6)


def test_views_equal_those_of_hidden_states(encoder: PreTrainedModel, prepared: Prepared) -> None:
    states = torch.from_numpy(frozen_states(encoder, prepared, "train"))
    for row, layers in enumerate(_one_by_one(encoder, prepared)):
        pooled = [layer[0].mean(0) for layer in layers]
        expected = {
            "embeddings": pooled[0],
            "last": pooled[-1],
            "concatenated": torch.cat([layer[0] for layer in layers[-4:]], dim=-1).mean(0),
            "summed": sum(layer[0] for layer in layers[-4:]).mean(0),
        }
        for name, features in expected.items():
            torch.testing.assert_close(VIEWS[name](states)[row], features, atol=5e-6, rtol=0)


def test_an_encoder_of_two_layers_gives_two_and_not_its_embeddings() -> None:
    states = torch.arange(2 * 3 * 4.0).reshape(2, 3, 4)
    assert torch.equal(VIEWS["concatenated"](states), torch.cat([states[:, 1], states[:, 2]], dim=1))
    assert torch.equal(VIEWS["summed"](states), states[:, 1] + states[:, 2])


def test_weighted_layers_are_their_closed_form() -> None:
    states = np.random.default_rng(0).normal(3.0, 2.0, size=(50, 3, 4)).astype(np.float32)
    classifier = FrozenClassifier(toy_task(), "weighted", states)
    weights = np.array([0.5, -1.0, 2.0])
    assert classifier.mix is not None
    classifier.mix.data = torch.tensor(weights, dtype=torch.float32)
    standard = (states - states.mean(0)) / states.std(0)
    shares = np.exp(weights) / np.exp(weights).sum()
    expected = sum(share * standard[:, layer] for layer, share in enumerate(shares))
    found = classifier.features(torch.from_numpy(states)).detach().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert {name for name, _ in classifier.named_parameters()} == {"mix", "linear.weight", "linear.bias"}


def _prepared_rows(kind: str, tokenizer: BertTokenizerFast) -> Prepared:
    return prepare(toy_task(kind, rows=90), tokenizer, 16)


@pytest.mark.parametrize("view", [*VIEWS])
def test_a_class_that_every_layer_knows_is_learned(
    view: str, tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    prepared = _prepared_rows("classification", tiny_tokenizer)
    labels = prepared.splits["train"].labels
    rng = np.random.default_rng(0)
    # The class is a direction; what is added is far larger in another one, which standardising takes away.
    known = np.eye(4, dtype=np.float32)[labels][:, None] + np.array([0, 0, 0, 900], dtype=np.float32)
    states = (known + 0.1 * rng.normal(size=(90, 3, 4))).astype(np.float32)
    classifier = FrozenClassifier(prepared.task, view, states)
    splits = dict.fromkeys(("train", "select", "evaluate"), states)
    train_on_states(classifier, prepared, splits, tmp_path, seed=0)
    assert np.mean(classifier.answers(states).argmax(-1) == labels) == 1.0


def test_numbers_are_learned_in_the_units_of_the_labels(tiny_tokenizer: BertTokenizerFast, tmp_path: Path) -> None:
    prepared = _prepared_rows("regression", tiny_tokenizer)
    labels = prepared.splits["train"].labels
    states = np.stack([labels, -labels], axis=1)[:, None].repeat(2, axis=1).astype(np.float32)
    classifier = FrozenClassifier(prepared.task, "last", states)
    np.testing.assert_allclose(classifier.answers(states)[:, 0], labels.mean(), atol=1e-6)
    torch.nn.init.constant_(classifier.linear.weight, 0.0)
    classifier.linear.weight.data[0, 0] = 1.0
    np.testing.assert_allclose(classifier.answers(states)[:, 0], labels, atol=1e-5)
