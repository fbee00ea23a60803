"""The distillation losses: pure functions of tensors, boolean masks and numbers.

Shapes: b batch, l length, d width, h heads, c classes. `valid_bl` is True at real tokens. Every loss is a mean over
what is valid, so padding changes nothing; masks enter before any arithmetic on scores, so that nothing infinite is ever
formed. Whatever the precision of the inputs, losses are computed in fp32 at least (float64 stays float64). The products
of states that they compare, QK^T and XX^T, are those of training: under autocast in bf16, which rounds a score by up to
0.4 %. In fp32 a step of `tiny` against attention took 6 (16 pieces) to 16 % (256) longer.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional


def wide(values: Tensor) -> Tensor:
    """At least fp32: half precisions are widened, float64 stays."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


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
    student_log = functional.log_softmax(wide(student) / temperature, dim=-1)
    teacher_log = functional.log_softmax(wide(teacher) / temperature, dim=-1)
    divergence = functional.kl_div(student_log, teacher_log, reduction="none", log_target=True).sum(dim=-1)
    if valid is None:
        return temperature**2 * divergence.mean()
    return temperature**2 * masked_mean(divergence, valid)


def soft_positions(student_bl: Tensor, teacher_bl: Tensor, temperature: float, valid_bl: Tensor) -> Tensor:
    """T² KL of two distributions over the valid positions of a row, mean over rows: one end of a span.

    A row without a valid position adds 0.
    """
    valid = valid_bl[:, None, None, :]
    student_log, teacher_log = (
        _log_distribution(wide(scores)[:, None, None] / temperature, valid_bl) for scores in (student_bl, teacher_bl)
    )
    pointwise = functional.kl_div(student_log, teacher_log, reduction="none", log_target=True)
    return temperature**2 * torch.where(valid, pointwise, torch.zeros_like(pointwise)).sum(dim=-1).mean()


def soft_binary(student: Tensor, teacher: Tensor, temperature: float = 1.0, valid: Tensor | None = None) -> Tensor:
    """T² KL of Bernoulli distributions sigmoid(z / T), summed over labels, mean over examples (or valid positions).

    The gradient is that of the binary cross-entropy against the teacher's probabilities; only this is 0 where both
    agree. Logits (..., c), of labels that exclude each other in no way.
    """
    own, other = (torch.stack([wide(logits), torch.zeros_like(wide(logits))], dim=-1) for logits in (student, teacher))
    pairs = None if valid is None else valid[..., None].expand(own.shape[:-1])
    return student.shape[-1] * soft_logits(own, other, temperature, pairs)


def soft_values(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean squared difference of the outputs, for regression: the student learns the teacher's values, not the
    labels.
    """
    return functional.mse_loss(wide(student), wide(teacher))


def hidden_mse(student_bld: Tensor, teacher_bld: Tensor, valid_bl: Tensor) -> Tensor:
    """Mean squared difference of states of equal width over real tokens (TinyBERT, arXiv 1909.10351, eq. 8, 9)."""
    squared = (wide(student_bld) - wide(teacher_bld)).square().mean(dim=-1)
    return masked_mean(squared, valid_bl)


def hidden_cosine(student_bld: Tensor, teacher_bld: Tensor, valid_bl: Tensor) -> Tensor:
    """1 - cosine of hidden states of equal width, mean over real tokens (DistilBERT, arXiv 1910.01108, section 3)."""
    cosine = functional.cosine_similarity(wide(student_bld), wide(teacher_bld), dim=-1)
    return masked_mean(1.0 - cosine, valid_bl)


def attention_scores(query_bhld: Tensor, key_bhld: Tensor, scaling: float) -> Tensor:
    """Q K^T / sqrt(d_k) before mask and softmax: (b, h, l, l), fp32 unless autocast is on."""
    return torch.matmul(wide(query_bhld), wide(key_bhld).transpose(-1, -2)) * scaling


def attention_mse(student_bhqk: Tensor, teacher_bhqk: Tensor, valid_bl: Tensor) -> Tensor:
    """Mean squared difference of attention scores before the softmax over heads and valid query x key pairs.

    TinyBERT, arXiv 1909.10351, equation 7. Where head counts differ, the heads' mean scores are compared.
    """
    if student_bhqk.shape[1] != teacher_bhqk.shape[1]:
        student_bhqk, teacher_bhqk = student_bhqk.mean(1, keepdim=True), teacher_bhqk.mean(1, keepdim=True)
    pairs = valid_bl[:, None, :, None] & valid_bl[:, None, None, :]
    squared = (wide(student_bhqk) - wide(teacher_bhqk)).square()
    return masked_mean(squared, pairs.expand_as(squared))


def attention_kl(student_bhqk: Tensor, teacher_bhqk: Tensor, valid_bl: Tensor) -> Tensor:
    """KL(A_T || A_S) of attention distributions in nats, mean over heads and valid query rows.

    From scores before the softmax; padded keys are masked before it. MiniLM, arXiv 2002.10957, section 3. Where head
    counts differ, the heads' mean distributions are compared.
    """
    student, teacher = (_log_distribution(scores, valid_bl) for scores in (student_bhqk, teacher_bhqk))
    if student.shape[1] != teacher.shape[1]:
        student, teacher = _head_mean(student), _head_mean(teacher)
    return _row_divergence(student, teacher, valid_bl)


def relation_scores(states_bld: Tensor, heads: int) -> Tensor:
    """X X^T / sqrt(d / heads) for the width split anew into `heads` relation heads: (b, heads, l, l), fp32 unless
    autocast is on.
    """
    batch, length, width = states_bld.shape
    split = states_bld.reshape(batch, length, heads, width // heads).transpose(1, 2)
    return attention_scores(split, split, (width // heads) ** -0.5)


def relation_kl(student_bld: Tensor, teacher_bld: Tensor, heads: int, valid_bl: Tensor) -> Tensor:
    """KL(R_T || R_S) in nats, R = softmax(X X^T / sqrt(d_r)), mean over relation heads and valid query rows.

    MiniLMv2, arXiv 2012.15828, section 3, for one X of queries, keys and values. `heads` must divide both
    widths, which may differ.
    """
    return attention_kl(relation_scores(student_bld, heads), relation_scores(teacher_bld, heads), valid_bl)


def pkd(student_bd: Tensor, teacher_bd: Tensor) -> Tensor:
    """Squared distance of L2-normalised states of equal width, mean over examples: 0 for one direction, at most 4.

    PKD, arXiv 1908.09355, section 3, for one layer's [CLS] states. Its released code divides by the width as well.
    """
    student, teacher = (functional.normalize(wide(states), dim=-1) for states in (student_bd, teacher_bd))
    return (student - teacher).square().sum(dim=-1).mean()


def _log_distribution(scores_bhqk: Tensor, valid_bl: Tensor) -> Tensor:
    """log softmax over valid keys; at padded keys a very negative number, never infinite."""
    scores = wide(scores_bhqk)
    lowest = torch.full((), torch.finfo(scores.dtype).min / 2, dtype=scores.dtype, device=scores.device)
    return torch.where(valid_bl[:, None, None, :], scores, lowest).log_softmax(dim=-1)


def _head_mean(log_bhqk: Tensor) -> Tensor:
    """Log of the heads' mean distribution, (b, 1, q, k)."""
    return log_bhqk.logsumexp(dim=1, keepdim=True) - math.log(log_bhqk.shape[1])


def _row_divergence(student_log: Tensor, teacher_log: Tensor, valid_bl: Tensor) -> Tensor:
    """KL of the rows, summed over keys, mean over heads and valid queries."""
    pointwise = functional.kl_div(student_log, teacher_log, reduction="none", log_target=True)
    rows = torch.where(valid_bl[:, None, None, :], pointwise, torch.zeros_like(pointwise)).sum(dim=-1)
    return masked_mean(rows, valid_bl[:, None, :].expand_as(rows))
