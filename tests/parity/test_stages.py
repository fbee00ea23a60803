"""One step of each recipe against a slow, plain formulation on a tiny model."""

import dataclasses
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from toy import toy_task
from transformers import BertForSequenceClassification, PreTrainedModel

from common.errors import UserError
from distill.distiller import Distiller, without_dropout
from distill.projections import fitted_projection
from distill.recipes import RECIPES, twin_recipe
from distill.stages import Stage, scaled
from teacher.tasks.base import Task


@pytest.fixture
def task() -> Task:
    return toy_task()


@pytest.fixture
def batch() -> dict[str, Tensor]:
    lengths = torch.tensor([6, 4, 3])
    mask = (torch.arange(6)[None, :] < lengths[:, None]).long()
    ids = torch.randint(5, 100, (3, 6)) * mask
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "token_type_ids": torch.zeros_like(ids),
        "labels": torch.tensor([0, 2, 1]),
        "index": torch.tensor([4, 0, 7]),
    }


def _eager(model: PreTrainedModel, batch: dict[str, Tensor]) -> tuple[Tensor, tuple[Tensor, ...], list[Tensor]]:
    """Logits, states, and scores recomputed from each layer's own projections."""
    output = model(batch["input_ids"], batch["attention_mask"], batch["token_type_ids"], output_hidden_states=True)
    scores = []
    for layer, state in zip(model.bert.encoder.layer, output.hidden_states, strict=False):
        attention = layer.attention.self
        heads, size = attention.num_attention_heads, attention.attention_head_size
        query, key = (
            part(state).view(*state.shape[:2], heads, size).transpose(1, 2) for part in (attention.query, attention.key)
        )
        scores.append(query @ key.transpose(-1, -2) / size**0.5)
    return output.logits, output.hidden_states, scores


def test_tinybert_layer_losses(
    tiny_bert: Callable[..., BertForSequenceClassification], task: Task, batch: dict[str, Tensor]
) -> None:
    """Embeddings, hidden states (projected) and scores, layer m to g(m), padding left out: arXiv 1909.10351, equation
    11.
    """
    teacher, student = tiny_bert(layers=4, hidden=32, seed=1), tiny_bert(layers=2, hidden=16, seed=2)
    projection = nn.Linear(16, 32)
    stage = RECIPES["tiny"]()[1]
    distiller = Distiller(student, teacher, stage, task, projection=projection).eval()
    terms = distiller(batch)
    _, own_states, own_scores = _eager(student, batch)
    _, states, scores = _eager(teacher, batch)
    expected = {"embedding": 0.0, "hidden": 0.0, "attention": 0.0}
    tokens = [(b, t) for b in range(3) for t in range(6) if batch["attention_mask"][b, t]]
    for b, t in tokens:
        expected["embedding"] += float(((projection(own_states[0][b, t]) - states[0][b, t]) ** 2).mean()) / len(tokens)
    for own, layer in ((1, 2), (2, 4)):
        for b, t in tokens:
            expected["hidden"] += float(((projection(own_states[own][b, t]) - states[layer][b, t]) ** 2).mean()) / len(
                tokens
            )
        pairs = [(b, q, k) for b, q in tokens for c, k in tokens if c == b]
        for b, q, k in pairs:
            gap = own_scores[own - 1][b, :, q, k] - scores[layer - 1][b, :, q, k]
            expected["attention"] += float((gap**2).mean()) / len(pairs)
    values = {name: float(value.detach()) for name, value in terms.items()}
    assert {name: values[name] for name in expected} == pytest.approx(expected, rel=1e-5)
    parts = {name for name in values if name not in expected}
    assert parts == {"hidden 1", "hidden 2", "attention 1", "attention 2"}
    for name in ("hidden", "attention"):
        assert values[f"{name} 1"] + values[f"{name} 2"] == pytest.approx(values[name], rel=1e-6)
    assert all(distiller.weights[name] == 0 and not terms[name].requires_grad for name in parts)


def test_distilbert_task_losses(
    tiny_bert: Callable[..., BertForSequenceClassification], task: Task, batch: dict[str, Tensor]
) -> None:
    """Soft logits at T = 2, hard labels and the cosine of the last states."""
    teacher, student = tiny_bert(layers=4, seed=1), tiny_bert(layers=2, seed=2)
    stored = torch.randn(9, 3)
    distiller = Distiller(
        student, teacher, RECIPES["distil"]()[0], task, projection=nn.Identity(), teacher_logits=stored
    ).eval()
    terms = {name: float(value.detach()) for name, value in distiller(batch).items()}
    logits, own_states, _ = _eager(student, batch)
    _, states, _ = _eager(teacher, batch)
    # Stored answers stand for the teacher's wherever there are some: the same in every stage.
    goal = stored[batch["index"]]
    soft = 4 * functional.kl_div((logits / 2).log_softmax(-1), (goal / 2).softmax(-1), reduction="batchmean")
    valid = batch["attention_mask"].bool()
    cosine = (1 - functional.cosine_similarity(own_states[-1][valid], states[-1][valid], dim=-1)).mean()
    expected = {"soft": soft, "hard": functional.cross_entropy(logits, batch["labels"]), "cosine": cosine}
    assert terms == pytest.approx({name: float(value.detach()) for name, value in expected.items()}, rel=1e-5, abs=1e-6)


def test_stored_logits_stand_in_for_the_teacher_by_example(
    tiny_bert: Callable[..., BertForSequenceClassification], task: Task, batch: dict[str, Tensor]
) -> None:
    student, stored = tiny_bert(seed=2), torch.randn(9, 3)
    stage = RECIPES["tiny"]()[2]
    terms = Distiller(student, None, stage, task, projection=nn.Identity(), teacher_logits=stored).eval()(batch)
    logits, _, _ = _eager(student, batch)
    expected = functional.kl_div(logits.log_softmax(-1), stored[[4, 0, 7]].softmax(-1), reduction="batchmean")
    assert float(terms["soft"].detach()) == pytest.approx(float(expected.detach()), rel=1e-5)


def test_only_student_and_projection_are_trained(
    tiny_bert: Callable[..., BertForSequenceClassification], task: Task, batch: dict[str, Tensor]
) -> None:
    teacher, student, projection = tiny_bert(layers=4, seed=1).train(), tiny_bert(hidden=16, seed=2), nn.Linear(16, 32)
    before = [parameter.clone() for parameter in teacher.parameters()]
    distiller = Distiller(student, teacher, RECIPES["tiny"]()[0], task, projection=projection)
    trained = {id(parameter) for parameter in distiller.parameters()}
    assert trained == {id(parameter) for part in (student, projection) for parameter in part.parameters()}
    optimizer = torch.optim.SGD(distiller.parameters(), lr=0.1)
    distiller.train()
    sum(distiller(batch).values()).backward()
    optimizer.step()
    assert not teacher.training
    assert all(torch.equal(a, b) for a, b in zip(before, teacher.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert projection.weight.grad.abs().sum() > 0
    teacher.train()
    with pytest.raises(RuntimeError, match="evaluation mode"):
        distiller(batch)


def test_the_fitted_projection_is_the_least_squares_one(
    tiny_bert: Callable[..., BertForSequenceClassification], batch: dict[str, Tensor]
) -> None:
    teacher, student = tiny_bert(layers=4, seed=1), tiny_bert(layers=2, hidden=16, seed=2)
    fitted = fitted_projection(student, teacher, [batch], (2, 4))
    valid = batch["attention_mask"].bool()
    own, states = _eager(student, batch)[1], _eager(teacher, batch)[1]
    x = torch.cat([state[valid] for state in own]).detach()
    y = torch.cat([states[layer][valid] for layer in (0, 2, 4)]).detach()
    best = torch.linalg.lstsq(torch.cat([x, torch.ones(len(x), 1)], 1), y).solution
    error = (fitted(x) - y).square().mean()
    least = (torch.cat([x, torch.ones(len(x), 1)], 1) @ best - y).square().mean()
    constant = (y - y.mean(0)).square().mean()
    # The ridge costs a little of the fit to 39 tokens; it must stay far from what no map at all would leave.
    assert float(error - least) < 0.01 * float(constant)
    assert isinstance(fitted_projection(teacher, teacher, [batch], (1, 2, 3, 4)), nn.Identity)


def test_a_projection_is_fitted_to_all_of_its_batches(tiny_bert: Callable[..., BertForSequenceClassification]) -> None:
    teacher, student = tiny_bert(layers=2, seed=1), tiny_bert(layers=2, hidden=16, seed=2)
    ids = torch.randint(5, 100, (12, 9), generator=torch.Generator().manual_seed(0))
    whole = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
    parts = [{name: tensor[start : start + 5] for name, tensor in whole.items()} for start in (0, 5, 10)]
    for shared in (True, False):
        together = fitted_projection(student, teacher, [whole], (1, 2), shared=shared)
        apart = fitted_projection(student, teacher, parts, (1, 2), shared=shared)
        assert (len(list(together.parameters())) == 2) is shared
        for one, other in zip(together.parameters(), apart.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_recipes_scale_and_their_twin_has_as_many_task_steps() -> None:
    stages = scaled(RECIPES["tiny"](), 0.5)
    whole = RECIPES["tiny"]()
    assert [stage.epochs for stage in stages] == [stage.epochs / 2 for stage in whole]
    assert stages[0].steps == whole[0].steps // 2
    (twin,) = twin_recipe(stages, {"labeled": 50_000})
    assert twin.losses == {"hard": 1.0}
    assert twin.dropout
    # 1,563 steps an epoch: a quarter of them, no more than 375, and one whole.
    assert twin.steps == 375 + 1563
    assert twin_recipe(stages, {"labeled": 320})[0].steps == 75 + 150


def test_a_stage_that_cannot_be_is_refused() -> None:
    good = RECIPES["tiny"]()[0]
    with pytest.raises(UserError, match="did you mean 'hidden'"):
        dataclasses.replace(good, losses={"hiden": 1.0})
    with pytest.raises(UserError, match="no labels"):
        dataclasses.replace(good, losses={"soft": 1.0})
    with pytest.raises(UserError, match="no teacher"):
        Stage(name="x", description="", teacher="none", data="train", losses={"soft": 1.0}, learning_rate=1e-4)


def test_a_stage_is_as_long_as_its_epochs_but_within_its_limits() -> None:
    options = {"seed": 0, "precision": "fp32", "checkpoint_every": 10}
    stage = dataclasses.replace(RECIPES["tiny"]()[1], epochs=2.0, most_steps=50, least_steps=9, batch_size=10)
    assert stage.loop(examples=101, **options).steps == 22
    assert stage.loop(examples=40, **options).steps == 9
    assert stage.loop(examples=1000, **options).steps == 50
    assert dataclasses.replace(stage, steps=7).loop(examples=1000, **options).steps == 7


def test_without_dropout_is_undone(tiny_bert: Callable[..., BertForSequenceClassification]) -> None:
    model = tiny_bert().train()
    ids = torch.randint(5, 100, (2, 6))
    with without_dropout(model):
        assert torch.equal(model(ids).logits, model(ids).logits)
    assert not torch.equal(model(ids).logits, model(ids).logits)
