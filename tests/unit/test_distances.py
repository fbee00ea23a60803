"""Distances between layers of unequal width."""

import dataclasses
import math
from pathlib import Path

import pytest
import torch
from transformers import BertConfig

from distill.changes import ChangeOptions, changed
from distill.distances import LinearCka, attention_divergence
from distill.job import Job
from distill.journal import Journal, teacher_layer_of
from distill.recipes import recipe_for
from distill.traces import compared_layers
from students.presets import student_preset


def _cka(x: torch.Tensor, y: torch.Tensor, part: int = 100) -> float:
    found = LinearCka()
    for start in range(0, len(x), part):
        found.add(x[start : start + part], y[start : start + part])
    return found.value()


def test_cka_is_one_up_to_rotation_scale_and_shift() -> None:
    x = torch.randn(50, 6, generator=torch.Generator().manual_seed(0))
    rotation, _ = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(1)))
    assert _cka(x, 3.0 * x @ rotation + 2.0) == pytest.approx(1.0)


def test_cka_equals_the_kernel_formulation() -> None:
    """Kornblith et al. 2019: HSIC(K, L) / sqrt(HSIC(K, K) HSIC(L, L)) with linear kernels."""
    x, y = (
        torch.randn(20, width, generator=torch.Generator().manual_seed(width), dtype=torch.float64) for width in (4, 7)
    )
    centre = torch.eye(20, dtype=torch.float64) - 1 / 20
    own, other = (centre @ (m @ m.T) @ centre for m in (x, y))
    expected = (own * other).sum() / ((own * own).sum() * (other * other).sum()).sqrt()
    assert _cka(x, y) == pytest.approx(float(expected))
    assert _cka(x, y, part=7) == pytest.approx(float(expected)), "in parts as in one"
    assert _cka(x + 50, y - 50, part=7) == pytest.approx(float(expected)), "wherever their means are"


def test_attention_divergence_is_zero_for_equals_and_log_two_for_opposites() -> None:
    valid = torch.tensor([[True, True, False]])
    one = torch.zeros(1, 2, 3, 3)
    one[..., 0] = 100.0
    other = torch.zeros(1, 2, 3, 3)
    other[..., 1] = 100.0
    other[..., 2] = 1e9
    assert attention_divergence(one, one, valid).tolist() == pytest.approx([0.0, 0.0], abs=1e-9)
    assert attention_divergence(one, other, valid).tolist() == pytest.approx([math.log(2)] * 2, rel=1e-5)


def test_distances_are_to_the_layers_that_were_compared(tmp_path: Path) -> None:
    student = student_preset("tiny", BertConfig())

    def job(recipe: str, layer_map: str | None) -> Job:
        stages = changed(recipe_for(recipe, "tiny"), ChangeOptions(layer_map=layer_map))
        return Job(student=student, stages=stages, seed=0, folder=tmp_path, twin=False)

    assert compared_layers(job("fast", None), 12) == (3, 6, 9, 12)
    assert compared_layers(job("fast", "top"), 12) == (9, 10, 11, 12)
    assert compared_layers(job("fast", "1,1,2,5"), 12) == (1, 1, 2, 5)
    assert compared_layers(job("minilmv2", None), 12) == (3, 6, 9, 12)
    nearest = job("fast", "nearest")
    for stage, found in (("general", (1, 2, 3, 4)), ("intermediate", (2, 3, 5, 12))):
        journal = Journal(tmp_path / stage)
        for layers in ((1, 4, 6, 9), found):
            journal.at(0)
            journal.write({teacher_layer_of(own): float(layer) for own, layer in enumerate(layers, start=1)})
    assert compared_layers(nearest, 12) == (2, 3, 5, 12)
    assert compared_layers(dataclasses.replace(nearest, folder=tmp_path / "none"), 12) == (3, 6, 9, 12)
