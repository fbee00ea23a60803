"""A training step of TinyBERT's intermediate stage, of MiniLMv2 and of PKD against a slow reference.

The reference takes one text at a time without padding, recomputes queries, keys and values from each layer's own
weights, and lets autograd go through all of that.
"""

import copy
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from toy import toy_task
from transformers import BertForSequenceClassification

from distill.distiller import Distiller
from distill.recipes import RECIPES
from distill.schedules import Schedule
from distill.stages import Stage
from teacher.batches import Batches
from teacher.loop import parameter_groups, train
from teacher.loop_config import LoopConfig
from teacher.tasks.base import Task

LENGTHS = (7, 4, 2)
RATE = 1e-2


@pytest.fixture
def task() -> Task:
    return toy_task(rows=3)


TEXTS = [torch.randint(5, 100, (length,), generator=torch.Generator().manual_seed(length)) for length in LENGTHS]
LABELS = torch.tensor([0, 2, 1])


def _collate(indices: object, step: int) -> dict[str, Tensor]:
    """All three texts, padded."""
    ids = nn.utils.rnn.pad_sequence(TEXTS, batch_first=True)
    mask = torch.arange(max(LENGTHS))[None, :] < torch.tensor(LENGTHS)[:, None]
    return {
        "input_ids": ids,
        "attention_mask": mask.long(),
        "token_type_ids": torch.zeros_like(ids),
        "labels": LABELS,
        "index": torch.arange(3),
    }


def _look(model: BertForSequenceClassification, text: Tensor) -> tuple[Tensor, list[Tensor], list[dict[str, Tensor]]]:
    """Logits (c), states (l, d) and each layer's query, key and value (l, d) of one text."""
    output = model(text[None], output_hidden_states=True)
    states = [state[0] for state in output.hidden_states]
    projected = []
    for layer, state in zip(model.bert.encoder.layer, states, strict=False):
        own = layer.attention.self
        projected.append({"query": own.query(state), "key": own.key(state), "value": own.value(state)})
    return output.logits[0], states, projected


def _split(states: Tensor, heads: int) -> list[Tensor]:
    size = states.shape[-1] // heads
    return [states[:, head * size : (head + 1) * size] for head in range(heads)]


def _tinybert(student, teacher, projection: nn.Module) -> Tensor:
    """Equation 11 with layer m to g(m) = 2 m, all weights 1."""
    total = torch.zeros(())
    tokens, pairs = sum(LENGTHS), sum(length**2 for length in LENGTHS)
    for text in TEXTS:
        (_, own_states, own), (_, states, other) = _look(student, text), _look(teacher, text)
        for m, n in ((0, 0), (1, 2), (2, 4)):
            total = total + (projection(own_states[m]) - states[n]).square().mean(-1).sum() / tokens
        for m, n in ((0, 1), (1, 3)):
            for head in range(4):
                scores = []
                for layer in (own[m], other[n]):
                    query, key = _split(layer["query"], 4)[head], _split(layer["key"], 4)[head]
                    scores.append(query @ key.T / math.sqrt(query.shape[-1]))
                total = total + (scores[0] - scores[1]).square().sum() / (4 * pairs)
    return total


def _minilmv2(student, teacher, projection: nn.Module) -> Tensor:
    """Relations of the two last layers in 16 heads: the most that divide 16 and 32."""
    total = torch.zeros(())
    for text in TEXTS:
        own, other = _look(student, text)[2][-1], _look(teacher, text)[2][-1]
        for name in ("query", "key", "value"):
            for x_s, x_t in zip(_split(own[name], 16), _split(other[name], 16), strict=True):
                q, p = ((x @ x.T / math.sqrt(x.shape[-1])).softmax(-1) for x in (x_s, x_t))
                total = total + (p * (p / q).log()).sum() / (16 * sum(LENGTHS))
    return total


def _pkd(student, teacher, projection: nn.Module) -> Tensor:
    """Labels, logits at T = 10, and the [CLS] state of the first of two layers, which learns from the second of
    four.
    """
    total = torch.zeros(())
    for text, label in zip(TEXTS, LABELS, strict=True):
        (logits, own, _), (goal, states, _) = _look(student, text), _look(teacher, text)
        p = (goal / 10).softmax(-1)
        soft = 100 * (p * (p.log() - (logits / 10).log_softmax(-1))).sum()
        x, y = projection(own[1][0]), states[2][0]
        distance = (x / x.norm() - y / y.norm()).square().sum()
        total = total + (-0.5 * logits.log_softmax(-1)[label] + 0.5 * soft + 0.13 * distance) / 3
    return total


Make = Callable[..., BertForSequenceClassification]


@pytest.mark.parametrize(
    ("stage", "reference"),
    [
        (RECIPES["tinybert"]()[1], _tinybert),
        (RECIPES["tiny"]()[1], _tinybert),
        (RECIPES["minilmv2"]()[0], _minilmv2),
        (RECIPES["pkd"]()[0], _pkd),
    ],
    ids=["tinybert", "tiny", "minilmv2", "pkd"],
)
def test_a_step_has_the_gradients_of_the_reference(
    tiny_bert: Make, task: Task, stage: Stage, reference: Callable[..., Tensor]
) -> None:
    teacher, student, projection = (
        tiny_bert(layers=4, seed=1),
        tiny_bert(layers=2, hidden=16, seed=2),
        nn.Linear(16, 32),
    )
    # Fresh weights are so small that all attention is nearly uniform.
    with torch.no_grad():
        for model in (teacher, student):
            for parameter in model.parameters():
                parameter.mul_(5 if parameter.ndim > 1 else 1)
    plain, plain_projection = copy.deepcopy(student), copy.deepcopy(projection)
    distiller = Distiller(student, teacher, stage, task, projection=projection).eval()
    distiller.at(0, 10)
    terms = distiller(_collate(None, 0))
    loss = sum(distiller.weights[name] * term for name, term in terms.items())
    loss.backward()
    expected = reference(plain, copy.deepcopy(teacher), plain_projection)
    expected.backward()
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    assert float(expected.detach()) > 1e-2
    pairs = zip((student, projection), (plain, plain_projection), strict=True)
    compared = 0
    for module, other in pairs:
        for (name, parameter), theirs in zip(module.named_parameters(), other.parameters(), strict=True):
            if theirs.grad is None:
                assert parameter.grad is None or not parameter.grad.any(), name
                continue
            scale = float(theirs.grad.abs().max()) + 1e-6
            assert torch.allclose(parameter.grad, theirs.grad, rtol=1e-4, atol=1e-5 * scale + 1e-8), name
            compared += bool(theirs.grad.any())
    assert compared > 10


def test_the_loop_trains_with_the_weights_and_the_temperature_of_each_step(
    tiny_bert: Make, task: Task, tmp_path: Path
) -> None:
    """Five steps of hard from 1 to 0, soft from 0 to 1 and T from 5 to 1, against the same in a plain loop."""
    student, stored = tiny_bert(layers=2, seed=2), torch.randn(3, 3)
    stage = Stage(
        name="fade",
        description="",
        teacher="finetuned",
        data="train",
        losses={"hard": Schedule(start=1.0, end=0.0), "soft": Schedule(start=0.0, end=1.0, shape="cosine")},
        temperature=Schedule(start=5.0, end=1.0),
        learning_rate=RATE,
    )
    plain = copy.deepcopy(student)
    for module in (student, plain):
        for part in module.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.0
    distiller = Distiller(student, None, stage, task, projection=nn.Identity(), teacher_logits=stored)
    batches = Batches(lengths=np.array(LENGTHS), batch_size=3, seed=0, collate=_collate)
    config = LoopConfig(learning_rate=RATE, steps=5, warmup=0.0, schedule="constant", precision="fp32", clip=1e9)
    history = train(distiller, batches, config, tmp_path, label="fade").history
    optimizer = torch.optim.AdamW(parameter_groups(plain, 0.01), lr=RATE, eps=1e-6)
    batch = _collate(None, 0)
    for step in range(5):
        share = step / 4
        temperature = 5 - 4 * share
        logits = plain.train()(batch["input_ids"], batch["attention_mask"], batch["token_type_ids"]).logits
        p, q = (stored / temperature).softmax(-1), (logits / temperature).log_softmax(-1)
        soft = temperature**2 * (p * (p.log() - q)).sum(-1).mean()
        hard = nn.functional.cross_entropy(logits, LABELS)
        loss = (1 - share) * hard + (1 - math.cos(math.pi * share)) / 2 * soft
        assert history[step].values["loss"] == pytest.approx(float(loss.detach()), rel=1e-4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
