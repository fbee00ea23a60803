"""Losses over attention, relations and [CLS] states against slow formulations, padding, and numeric gradients."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from distill import losses

LENGTHS = (5, 3, 1)


def _valid(lengths: tuple[int, ...] = LENGTHS, padding: int = 0) -> Tensor:
    return torch.arange(max(lengths) + padding)[None, :] < torch.tensor(lengths)[:, None]


def _random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _slow_kl(student: Tensor, teacher: Tensor) -> float:
    """Mean over heads, texts and queries, every text cut to its own length; scores (b, h, l, l)."""
    rows = []
    for text, length in enumerate(LENGTHS):
        for own, other in zip(student[text], teacher[text], strict=True):
            for query in range(length):
                q, p = (torch.exp(scores[query, :length]) for scores in (own, other))
                q, p = q / q.sum(), p / p.sum()
                rows.append(float((p * (p.log() - q.log())).sum()))
    # Every row weighs the same, so a longer text weighs more.
    return sum(rows) / len(rows)


def test_attention_kl_is_the_mean_over_heads_and_valid_rows() -> None:
    student, teacher = _random(3, 2, 5, 5, seed=1), _random(3, 2, 5, 5, seed=2)
    expected = _slow_kl(student, teacher)
    assert expected > 0.1
    assert float(losses.attention_kl(student, teacher, _valid())) == pytest.approx(expected, rel=1e-5)


def test_attention_kl_of_one_known_row() -> None:
    """Two keys with probabilities 1/2, 1/2 against 1/4, 3/4: ln 2 - ln 3 / 2, and a third key that is padding."""
    student = torch.tensor([math.log(1), math.log(3), 7.0]).expand(1, 1, 3, 3)
    teacher = torch.tensor([0.0, 0.0, math.inf]).expand(1, 1, 3, 3)
    valid = torch.tensor([[True, True, False]])
    closed = math.log(2) - math.log(3) / 2
    assert float(losses.attention_kl(student, teacher, valid)) == pytest.approx(closed, rel=1e-5)


def test_attention_kl_compares_mean_distributions_where_head_counts_differ() -> None:
    student, teacher = _random(1, 2, 4, 4, seed=3), _random(1, 3, 4, 4, seed=4)
    q, p = (scores.softmax(-1).mean(1) for scores in (student, teacher))
    expected = functional.kl_div(q.log(), p, reduction="sum") / 4
    valid = torch.ones(1, 4, dtype=torch.bool)
    assert float(losses.attention_kl(student, teacher, valid)) == pytest.approx(float(expected), rel=1e-5)


def test_relation_kl_splits_both_widths_into_the_same_heads() -> None:
    """Heads of the model do not matter: widths 8 and 12 in 4 relation heads of 2 and 3."""
    student, teacher = _random(3, 5, 8, seed=5), _random(3, 5, 12, seed=6)
    relations = []
    for states in (student, teacher):
        size = states.shape[-1] // 4
        scores = torch.zeros(3, 4, 5, 5)
        for text in range(3):
            for head in range(4):
                part = states[text, :, head * size : (head + 1) * size]
                scores[text, head] = part @ part.T / math.sqrt(size)
        relations.append(scores)
    expected = _slow_kl(*relations)
    assert float(losses.relation_kl(student, teacher, 4, _valid())) == pytest.approx(expected, rel=1e-5)


def test_pkd_is_two_minus_two_cosines() -> None:
    student, teacher = _random(6, 8, seed=7), _random(6, 8, seed=8)
    cosines = [float(a @ b) / float(a.norm() * b.norm()) for a, b in zip(student, teacher, strict=True)]
    assert float(losses.pkd(student, teacher)) == pytest.approx(sum(2 - 2 * c for c in cosines) / 6, rel=1e-5)
    assert float(losses.pkd(student, 3 * student)) == pytest.approx(0, abs=1e-6)
    assert float(losses.pkd(student, -student)) == pytest.approx(4, rel=1e-5)


def test_equal_distributions_are_at_distance_zero_and_wide_apart_ones_stay_finite() -> None:
    scores = _random(3, 2, 5, 5, seed=9)
    assert float(losses.attention_kl(scores + 3, scores, _valid())) == pytest.approx(0, abs=1e-6)
    far = losses.attention_kl(1e4 * scores, -1e4 * scores, _valid())
    assert math.isfinite(float(far))
    assert float(far) > 1e3
    assert float(losses.attention_kl(scores, scores, torch.zeros(3, 5, dtype=torch.bool))) == 0


def _pad(scores: Tensor, by: int, fill: float) -> Tensor:
    return functional.pad(scores, (0, by, 0, by), value=fill)


@settings(max_examples=40, deadline=None)
@given(
    by=st.integers(1, 6),
    fill=st.sampled_from([0.0, 1e30, -1e30, math.inf, -math.inf, math.nan]),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
)
def test_more_padding_changes_nothing(by: int, fill: float, lengths: list[int], seed: int) -> None:
    count, longest = len(lengths), max(lengths)
    valid, wider = _valid(tuple(lengths)), _valid(tuple(lengths), by)
    student, teacher = (_random(count, 2, longest, longest, seed=seed + place) for place in (0, 1))
    padded = [_pad(scores, by, fill) for scores in (student, teacher)]
    for loss in (losses.attention_kl, losses.attention_mse):
        torch.testing.assert_close(loss(*padded, wider), loss(student, teacher, valid), rtol=1e-5, atol=1e-7)
    states = [_random(count, longest, 8, seed=seed + place) for place in (2, 3)]
    padded = [functional.pad(state, (0, 0, 0, by), value=fill) for state in states]
    for loss in (losses.hidden_mse, losses.hidden_cosine, lambda a, b, mask: losses.relation_kl(a, b, 4, mask)):
        torch.testing.assert_close(loss(*padded, wider), loss(*states, valid), rtol=1e-5, atol=1e-7)


LOSSES: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], tuple[int, ...]]] = {
    "soft_logits": (lambda s, t: losses.soft_logits(s, t, 2.0), (4, 3)),
    "soft_logits by position": (lambda s, t: losses.soft_logits(s, t, 2.0, _valid()), (3, 5, 3)),
    "soft_values": (losses.soft_values, (4, 1)),
    "hidden_mse": (lambda s, t: losses.hidden_mse(s, t, _valid()), (3, 5, 4)),
    "hidden_cosine": (lambda s, t: losses.hidden_cosine(s, t, _valid()), (3, 5, 4)),
    "attention_mse": (lambda s, t: losses.attention_mse(s, t, _valid()), (3, 2, 5, 5)),
    "attention_kl": (lambda s, t: losses.attention_kl(s, t, _valid()), (3, 2, 5, 5)),
    "relation_kl": (lambda s, t: losses.relation_kl(s, t, 2, _valid()), (3, 5, 4)),
    "pkd": (losses.pkd, (4, 6)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    loss, shape = LOSSES[name]
    student = _random(*shape, seed=10).double().requires_grad_()
    teacher = _random(*shape, seed=11).double()
    assert loss(student, teacher).dtype == torch.float64
    assert torch.autograd.gradcheck(lambda values: loss(values, teacher), student)


@pytest.mark.parametrize("name", LOSSES)
def test_half_precision_is_widened_before_anything_is_summed(name: str) -> None:
    loss, shape = LOSSES[name]
    student, teacher = (_random(*shape, seed=seed).bfloat16() for seed in (12, 13))
    assert loss(student, teacher).dtype == torch.float32
    assert torch.equal(loss(student, teacher), loss(student.float(), teacher.float()))
