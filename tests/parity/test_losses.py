"""Every distillation loss against a second formulation, and against padding."""

import math

import pytest
import torch
from torch.nn import functional

from distill import losses


def _ragged(width: int, *, seed: int, lengths: tuple[int, ...] = (5, 3)) -> tuple[torch.Tensor, torch.Tensor]:
    """States (b, l, d) with noise in the padding, and the mask."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(len(lengths), max(lengths), width, generator=generator)
    valid = torch.arange(max(lengths))[None, :] < torch.tensor(lengths)[:, None]
    return states, valid


@pytest.mark.parametrize("temperature", [1.0, 2.0, 8.0])
def test_soft_logits_is_t_squared_times_kl_summed_over_classes(temperature: float) -> None:
    generator = torch.Generator().manual_seed(1)
    student, teacher = torch.randn(2, 6, 4, generator=generator)
    expected = 0.0
    for own, other in zip(student, teacher, strict=True):
        p, q = (torch.exp(row / temperature) / torch.exp(row / temperature).sum() for row in (other, own))
        expected += float((p * (p / q).log()).sum()) / 6
    assert float(losses.soft_logits(student, teacher, temperature)) == pytest.approx(
        temperature**2 * expected, rel=1e-5
    )


def test_soft_logits_gradient_is_the_closed_form() -> None:
    """d/dz_S of T² KL is T (softmax(z_S / T) - softmax(z_T / T)), over the number of examples."""
    generator = torch.Generator().manual_seed(2)
    student, teacher = torch.randn(2, 5, 3, generator=generator)
    student.requires_grad_()
    losses.soft_logits(student, teacher, 4.0).backward()
    closed = 4.0 * (functional.softmax(student.detach() / 4.0, -1) - functional.softmax(teacher / 4.0, -1)) / 5
    assert torch.allclose(student.grad, closed, atol=1e-6)


def test_soft_logits_keeps_its_gradient_size_over_temperatures() -> None:
    """Hinton et al.: with T² the gradient stays of one size; without it, it falls as 1 / T²."""
    norms = []
    for temperature in (1.0, 8.0):
        student, teacher = torch.randn(2, 32, 10, generator=torch.Generator().manual_seed(3))
        student.requires_grad_()
        losses.soft_logits(student, teacher, temperature).backward()
        norms.append(float(student.grad.norm()))
    assert 0.5 < norms[1] / norms[0] < 2


def test_soft_logits_over_valid_positions_ignores_the_rest() -> None:
    student, valid = _ragged(4, seed=4)
    teacher, _ = _ragged(4, seed=5)
    spoiled = student.clone()
    spoiled[~valid] = float("nan")
    kept = losses.soft_logits(student[valid], teacher[valid], 2.0)
    assert torch.equal(
        losses.soft_logits(student, teacher, 2.0, valid), losses.soft_logits(spoiled, teacher, 2.0, valid)
    )
    assert float(losses.soft_logits(student, teacher, 2.0, valid)) == pytest.approx(float(kept), rel=1e-6)


def test_hidden_losses_are_means_over_real_tokens() -> None:
    student, valid = _ragged(8, seed=6)
    teacher, _ = _ragged(8, seed=7)
    pairs = [(student[b, t], teacher[b, t]) for b, t in valid.nonzero().tolist()]
    squared = sum(float(((own - other) ** 2).mean()) for own, other in pairs) / len(pairs)
    cosine = sum(1 - float(own @ other) / (float(own.norm()) * float(other.norm())) for own, other in pairs) / len(
        pairs
    )
    assert float(losses.hidden_mse(student, teacher, valid)) == pytest.approx(squared, rel=1e-5)
    assert float(losses.hidden_cosine(student, teacher, valid)) == pytest.approx(cosine, rel=1e-5)


def test_attention_mse_counts_only_valid_query_key_pairs() -> None:
    generator = torch.Generator().manual_seed(8)
    student, teacher = torch.randn(2, 2, 3, 4, 4, generator=generator)
    valid = torch.tensor([[True, True, True, False], [True, True, False, False]])
    terms = [
        float((student[b, h, q, k] - teacher[b, h, q, k]) ** 2)
        for b in range(2)
        for h in range(3)
        for q in range(4)
        for k in range(4)
        if valid[b, q] and valid[b, k]
    ]
    spoiled = student.clone()
    spoiled[:, :, :, 3] = -math.inf
    assert float(losses.attention_mse(student, teacher, valid)) == pytest.approx(sum(terms) / len(terms), rel=1e-5)
    assert torch.equal(losses.attention_mse(spoiled, teacher, valid), losses.attention_mse(student, teacher, valid))


def test_attention_mse_compares_head_means_where_head_counts_differ() -> None:
    generator = torch.Generator().manual_seed(9)
    student = torch.randn(1, 2, 3, 3, generator=generator)
    teacher = torch.randn(1, 4, 3, 3, generator=generator)
    expected = float((student.mean(1) - teacher.mean(1)).square().mean())
    assert float(losses.attention_mse(student, teacher, torch.ones(1, 3, dtype=torch.bool))) == pytest.approx(
        expected, rel=1e-5
    )


@pytest.mark.parametrize("loss", [losses.hidden_mse, losses.hidden_cosine])
def test_padding_changes_nothing(loss) -> None:
    student, valid = _ragged(8, seed=10)
    teacher, _ = _ragged(8, seed=11)
    wide = [functional.pad(states, (0, 0, 0, 4), value=1e30) for states in (student, teacher)]
    assert torch.equal(loss(*wide, functional.pad(valid, (0, 4))), loss(student, teacher, valid))


def test_gradients_stay_finite_beside_infinite_padding() -> None:
    student, valid = _ragged(8, seed=12)
    student[~valid] = math.inf
    student.requires_grad_()
    losses.hidden_mse(student, torch.zeros_like(student), valid).backward()
    assert torch.isfinite(student.grad[valid]).all()
    assert torch.equal(student.grad[valid], (2 * student.detach() / 8 / valid.sum())[valid])
