"""The distillation losses: pure functions of tensors, boolean masks and numbers.

Shapes: b batch, l length, d width, h heads, c classes. `valid_bl` is True at real tokens. Every loss is a mean over
what is valid, so padding changes nothing; masks enter before any arithmetic on scores, so that nothing infinite is ever
formed.
"""

import torch
from torch import Tensor
from torch.nn import functional


def masked_mean(values: Tensor, valid: Tensor) -> Tensor:
    """Mean of `values` where `valid`; 0 where nothing is. Invalid values may be anything, even NaN.

    >>> float(masked_mean(torch.tensor([1.0, 3.0, float("nan")]), torch.tensor([True, True, False])))
    2.0
    """
    kept = torch.where(valid, values, torch.zeros((), dtype=values.dtype, device=values.device))
    return kept.sum() / valid.sum().clamp(min=1)


def soft_logits(student: Tensor, teacher: Tensor, temperature: float = 1.0, valid: Tensor | None = None) -> Tensor:
    """T² KL(softmax(z_T / T) || softmax(z_S / T)), summed over classes, mean over examples (or valid positions).

    Hinton et al. 2015 (arXiv 1503.02531), section 2: the factor T² keeps the gradient's size when T changes; it stays
    without a hard loss too. Logits (..., c); `valid` (...) where there is one row a token.
    """
    student_log = functional.log_softmax(student.float() / temperature, dim=-1)
    teacher_log = functional.log_softmax(teacher.float() / temperature, dim=-1)
    divergence = functional.kl_div(student_log, teacher_log, reduction="none", log_target=True).sum(dim=-1)
    if valid is None:
        return temperature**2 * divergence.mean()
    return temperature**2 * masked_mean(divergence, valid)


def soft_values(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean squared difference of the outputs, for regression: the student learns the teacher's values, not the
    labels.
    """
    return functional.mse_loss(student.float(), teacher.float())


def hidden_mse(student_bld: Tensor, teacher_bld: Tensor, valid_bl: Tensor) -> Tensor:
    """Mean squared difference of states of equal width over real tokens (TinyBERT, arXiv 1909.10351, eq. 8, 9)."""
    squared = (student_bld.float() - teacher_bld.float()).square().mean(dim=-1)
    return masked_mean(squared, valid_bl)


def hidden_cosine(student_bld: Tensor, teacher_bld: Tensor, valid_bl: Tensor) -> Tensor:
    """1 - cosine of hidden states of equal width, mean over real tokens (DistilBERT, arXiv 1910.01108, section 3)."""
    cosine = functional.cosine_similarity(student_bld.float(), teacher_bld.float(), dim=-1)
    return masked_mean(1.0 - cosine, valid_bl)


def attention_scores(query_bhld: Tensor, key_bhld: Tensor, scaling: float) -> Tensor:
    """Q K^T / sqrt(d_k) before mask and softmax, fp32: (b, h, l, l)."""
    return torch.matmul(query_bhld.float(), key_bhld.float().transpose(-1, -2)) * scaling


def attention_mse(student_bhqk: Tensor, teacher_bhqk: Tensor, valid_bl: Tensor) -> Tensor:
    """Mean squared difference of attention scores before the softmax over heads and valid query x key pairs.

    TinyBERT, arXiv 1909.10351, equation 7. Where head counts differ, the heads' mean scores are compared.
    """
    if student_bhqk.shape[1] != teacher_bhqk.shape[1]:
        student_bhqk, teacher_bhqk = student_bhqk.mean(1, keepdim=True), teacher_bhqk.mean(1, keepdim=True)
    pairs = valid_bl[:, None, :, None] & valid_bl[:, None, None, :]
    squared = (student_bhqk.float() - teacher_bhqk.float()).square()
    return masked_mean(squared, pairs.expand_as(squared))
