"""Pruning: counts as claimed, closed forms, importance by a second formula, folders that reload bit for bit."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from families import flat_scores
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    BertForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    PreTrainedModel,
)

from common.artifact import CardText, load, save, verify
from common.errors import UserError
from distill.flops import flops, random_batch
from distill.measure import count_parameters
from students.anatomy import anatomy
from students.importance import Scores, Seen, magnitude, taylor
from students.prune import cut, dependency_graph, pruned
from students.pruned_shape import EncoderShape, shape_of
from students.ranking import PARTS, Kept, everything, ranked, without

Make = Callable[..., PreTrainedModel]


def distilbert(vocabulary: int, layers: int = 2) -> PreTrainedModel:
    config = DistilBertConfig(
        vocab_size=vocabulary,
        dim=32,
        n_layers=layers,
        n_heads=4,
        hidden_dim=128,
        max_position_embeddings=128,
        num_labels=3,
    )
    torch.manual_seed(0)
    return DistilBertForSequenceClassification(config).eval()


def model_of(family: str, tiny_bert: Make, layers: int = 2) -> PreTrainedModel:
    bert = tiny_bert(layers=layers)
    return bert if family == "bert" else distilbert(bert.config.vocab_size, layers)


def batches(count: int = 2) -> list[dict[str, Tensor]]:
    """Of 4 texts of up to 9 pieces, half of them shorter."""
    torch.manual_seed(1)
    mask = torch.tensor([[1] * 9, [1] * 6 + [0] * 3] * 2)
    return [
        {"input_ids": torch.randint(5, 90, (4, 9)), "attention_mask": mask, "labels": torch.tensor([0, 1, 2, 1])}
        for _ in range(count)
    ]


def loss_of(model: PreTrainedModel) -> Callable[[dict[str, Tensor]], Tensor]:
    return lambda batch: cross_entropy(
        model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits, batch["labels"]
    )


def parameters(shape: EncoderShape) -> float:
    return shape.encoder_parameters


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_a_shape_says_what_its_model_costs(family: str, tiny_bert: Make) -> None:
    model = model_of(family, tiny_bert)
    shape = shape_of(model)
    assert shape.even
    assert (shape.heads, shape.ffn, shape.hidden, shape.head_dim) == ((4, 4), (128, 128), 32, 8)
    assert shape.parameters == count_parameters(model)
    assert shape.flops(16) == flops(model, length=16)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    family=st.sampled_from(["bert", "distilbert"]),
    share=st.floats(0.05, 0.6),
    parts=st.sets(st.sampled_from(PARTS), min_size=2),
    importance=st.sampled_from(["taylor", "magnitude", "random"]),
    even=st.booleans(),
)
def test_any_share_of_any_parts_gives_a_smaller_model_that_reloads_bit_for_bit(
    tiny_bert: Make,
    tiny_tokenizer,
    tmp_path_factory: pytest.TempPathFactory,
    family: str,
    share: float,
    parts: set[str],
    importance: str,
    even: bool,
) -> None:
    model = model_of(family, tiny_bert, layers=3)
    whole = shape_of(model)
    most = (1 - share) * whole.encoder_parameters
    arguments = {"cost": parameters, "most": most, "importance": importance, "even": even, "parts": parts}
    try:
        smaller, kept = pruned(model, batches(1), loss_of(model), **arguments)
    except UserError:
        rest = without(whole, ranked(whole, taylor(model, batches(1), loss_of(model)).scores, parts, even=even))
        assert rest.shape(whole).encoder_parameters > most
        return
    shape = shape_of(smaller)
    assert shape == kept.shape(whole)
    assert shape.encoder_parameters <= most
    assert shape.parameters == count_parameters(smaller)
    assert shape.flops(16) == flops(smaller, length=16)
    assert shape.even == (type(smaller) in (BertForSequenceClassification, DistilBertForSequenceClassification))
    folder = tmp_path_factory.mktemp("pruned") / "model"
    save(smaller, tiny_tokenizer, folder, card=CardText(title="pruned", description="A test.", task="toy"))
    verify(folder, smaller, random_batch(smaller, batch=3, length=7))
    again = load(folder)[0]
    twice, _ = pruned(again, batches(1), loss_of(again), **arguments | {"most": shape.encoder_parameters})
    assert count_parameters(twice) == count_parameters(smaller), "nothing has to go any more"
    thrice = without(shape, ranked(shape, taylor(again, batches(1), loss_of(again)).scores, parts, even=False)[:1])
    assert shape_of(cut(again, thrice, taylor(again, batches(1), loss_of(again)))) == thrice.shape(shape)


def test_a_layer_that_hands_its_input_on_can_go(tiny_bert: Make) -> None:
    model = model_of("bert", tiny_bert, layers=3)
    first = anatomy(model).layers[1]
    with torch.no_grad():
        for part in (first.attention_output, first.ffn_out):
            part.weight.zero_()
            part.bias.zero_()
    whole = shape_of(model)
    kept = Kept(layers=(0, 2), heads=everything(whole).heads, ffn=everything(whole).ffn, hidden=tuple(range(32)))
    smaller = cut(model, kept, Seen(scores=flat_scores(whole)))
    batch = random_batch(model, batch=3, length=9)
    assert type(smaller) is BertForSequenceClassification
    assert smaller.config.num_hidden_layers == 2
    # The layer's two LayerNorms of a state that is normalised already change it by their epsilon alone.
    assert torch.allclose(smaller(**batch).logits, model(**batch).logits, atol=1e-5)


def test_units_that_copy_others_are_predicted_from_them(tiny_bert: Make) -> None:
    model = model_of("bert", tiny_bert)
    layer = anatomy(model).layers[0]
    with torch.no_grad():
        layer.ffn_in.weight[64:] = layer.ffn_in.weight[:64]
        layer.ffn_in.bias[64:] = layer.ffn_in.bias[:64]
    seen = taylor(model, batches(8), loss_of(model))
    whole = everything(shape_of(model))
    kept = Kept(layers=whole.layers, heads=whole.heads, ffn=(tuple(range(64)), whole.ffn[1]), hidden=whole.hidden)
    batch = batches(1)[0]
    inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    predicted = cut(model, kept, seen)(**inputs).logits
    dropped = cut(model, kept, Seen(scores=seen.scores))(**inputs).logits
    truth = model(**inputs).logits
    assert (predicted - truth).abs().max() < 0.05 * (dropped - truth).abs().max()


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_taylor_is_the_derivative_by_a_gate(family: str, tiny_bert: Make) -> None:
    """Second formula: a real gate on every unit, derivatives by autograd, one example at a time."""
    model = model_of(family, tiny_bert)
    parts = anatomy(model)
    scores = taylor(model, batches(2), loss_of(model)).scores
    heads, units, channels = torch.ones(4, requires_grad=True), torch.ones(128, requires_grad=True), []
    handles = [
        parts.layers[0].attention_output.register_forward_pre_hook(lambda _, x: (x[0] * heads.repeat_interleave(8),)),
        parts.layers[1].ffn_out.register_forward_pre_hook(lambda _, x: (x[0] * units,)),
    ]
    sites = [parts.norm, *(norm for layer in parts.layers for norm in (layer.attention_norm, layer.ffn_norm))]
    for site in sites:
        gate = torch.ones(32, requires_grad=True)
        channels.append(gate)
        handles.append(site.register_forward_hook(lambda _, __, output, gate=gate: output * gate))
    gates = [heads, units, *channels]
    sums = [torch.zeros(len(gate)) for gate in gates]
    for batch in batches(2):
        for row in range(4):
            example = {name: tensor[row : row + 1] for name, tensor in batch.items()}
            for total, gradient in zip(sums, torch.autograd.grad(loss_of(model)(example), gates), strict=True):
                total += gradient.square() / 8
    for handle in handles:
        handle.remove()
    assert torch.allclose(scores.heads[0], sums[0], rtol=1e-3, atol=1e-9)
    assert torch.allclose(scores.ffn[1], sums[1], rtol=1e-3, atol=1e-9)
    assert torch.allclose(scores.hidden, torch.stack(sums[2:]).sum(0), rtol=1e-3, atol=1e-9)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_magnitude_is_the_sum_of_squares_of_what_goes_with_a_unit(tiny_bert: Make) -> None:
    model = model_of("bert", tiny_bert)
    scores = magnitude(model, dependency_graph(model))
    layer = anatomy(model).layers[0]
    rows = [projection.weight for projection in layer.projections]
    for head in range(4):
        dims = slice(8 * head, 8 * head + 8)
        wanted = sum(row[dims].square().sum() for row in rows) + layer.attention_output.weight[:, dims].square().sum()
        assert torch.isclose(scores.heads[0][head], wanted.detach(), rtol=1e-5)
    wanted = layer.ffn_in.weight[5].square().sum() + layer.ffn_out.weight[:, 5].square().sum()
    assert torch.isclose(scores.ffn[0][5], wanted.detach(), rtol=1e-5)


def test_the_least_important_go_first_and_layers_differ(tiny_bert: Make) -> None:
    model = model_of("bert", tiny_bert)
    whole = shape_of(model)
    flat = flat_scores(whole)
    scores = Scores(
        heads=(torch.tensor([0.0, 0.0, 0.0, 9.0]), torch.tensor([9.0, 9.0, 0.0, 9.0])),
        ffn=flat.ffn,
        hidden=flat.hidden,
        layers=flat.layers,
        pooler=flat.pooler,
    )
    order = ranked(whole, scores, ["heads"], even=False)
    assert without(whole, order[:4]).heads == ((3,), (0, 1, 3))
    assert {bundle.units[0] for bundle in order} >= {("heads", 0, 0), ("heads", 1, 2)}
    assert ("heads", 0, 3) not in {unit for bundle in order for unit in bundle.units}
    evenly = ranked(whole, scores, ["heads", "hidden"], even=True)
    shape = without(whole, evenly[:2]).shape(whole)
    assert shape.even
    assert (shape.heads, shape.hidden) == ((2, 2), 16)


def test_mistakes_are_named(tiny_bert: Make) -> None:
    model = model_of("bert", tiny_bert)
    arguments = {"cost": parameters, "most": 1e9, "parts": ["heads"]}
    with pytest.raises(UserError, match="unknown importance 'tailor': did you mean 'taylor'"):
        pruned(model, batches(1), loss_of(model), importance="tailor", **arguments)
    with pytest.raises(UserError, match="unknown part to prune 'head'"):
        pruned(model, batches(1), loss_of(model), **arguments | {"parts": ["head"]})
    with pytest.raises(UserError, match=r"at most \d+% can go.*--prune-parts"):
        pruned(model, batches(1), loss_of(model), **arguments | {"most": 10.0})
    with pytest.raises(UserError, match="no batch"):
        taylor(model, [], loss_of(model))
    albert = AlbertForSequenceClassification(
        AlbertConfig(vocab_size=90, embedding_size=8, hidden_size=16, num_attention_heads=2, intermediate_size=16)
    )
    with pytest.raises(UserError, match="'albert' cannot be pruned"):
        shape_of(albert)


def test_transformers_alone_refuses_an_uneven_folder(tiny_bert: Make, tiny_tokenizer, tmp_path: Path) -> None:
    """In a process of its own: in this one the type is registered."""
    model = model_of("bert", tiny_bert)
    whole = everything(shape_of(model))
    kept = Kept(layers=(0, 1), heads=((0,), whole.heads[1]), ffn=whole.ffn, hidden=whole.hidden)
    uneven = cut(model, kept, Seen(scores=flat_scores(shape_of(model))))
    save(uneven, tiny_tokenizer, tmp_path / "m", card=CardText(title="pruned", description="A test.", task="toy"))
    code = "import sys, transformers; transformers.AutoModelForSequenceClassification.from_pretrained(sys.argv[1])"
    result = subprocess.run([sys.executable, "-c", code, tmp_path / "m"], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "distillery-bert" in result.stderr
