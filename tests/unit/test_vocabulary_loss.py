"""Cross-entropy over a vocabulary in blocks: the same numbers as in one go."""

import pytest
import torch
from torch.nn import functional

from teacher import vocabulary_loss
from teacher.vocabulary_loss import cross_entropies


@pytest.mark.parametrize("block", [1, 100, 330, 10**6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_losses_and_gradients_are_those_of_fp32_in_one_go(
    monkeypatch: pytest.MonkeyPatch, block: int, dtype: torch.dtype
) -> None:
    monkeypatch.setattr(vocabulary_loss, "BLOCK", block)
    generator = torch.Generator().manual_seed(4)
    scores = (8 * torch.randn(13, 100, generator=generator)).to(dtype)
    # As padding rows are: cut off a longer array.
    scores = torch.cat([scores, scores])[:13].requires_grad_()
    labels = torch.randint(0, 100, (13,), generator=generator)
    weights = torch.rand(13, generator=generator)
    whole = scores.detach().float().requires_grad_()
    wanted = functional.cross_entropy(whole, labels, reduction="none")
    found = cross_entropies(scores, labels)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    (wanted * weights).sum().backward()
    (found * weights).sum().backward()
    assert whole.grad is not None
    assert scores.grad is not None
    assert scores.grad.dtype == dtype
    tolerance = 1e-6 if dtype == torch.float32 else 2**-8
    torch.testing.assert_close(scores.grad.float(), whole.grad, rtol=tolerance, atol=1e-6)


def test_no_rows_and_far_scores() -> None:
    empty = cross_entropies(torch.zeros(0, 5), torch.zeros(0, dtype=torch.int64))
    assert empty.shape == (0,)
    far = cross_entropies(torch.tensor([[1e4, 0.0], [0.0, 1e4]]), torch.tensor([0, 0]))
    assert far.tolist() == [0.0, 1e4]
