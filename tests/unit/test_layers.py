from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import UserError
from distill.general_config import GeneralConfig
from distill.layers import check_attention, layer_map


@pytest.mark.parametrize(
    ("name", "students", "teachers", "expected"),
    [
        ("uniform", 4, 12, (3, 6, 9, 12)),
        ("uniform", 6, 12, (2, 4, 6, 8, 10, 12)),
        ("uniform", 4, 6, (1, 3, 4, 6)),
        ("uniform", 1, 6, (6,)),
        ("top", 4, 12, (9, 10, 11, 12)),
        ("bottom", 4, 12, (1, 2, 3, 4)),
        ("2,4,6", 3, 6, (2, 4, 6)),
    ],
)
def test_maps(name: str, students: int, teachers: int, expected: tuple[int, ...]) -> None:
    assert layer_map(name, students, teachers) == expected


@given(st.integers(1, 24), st.integers(1, 24))
def test_uniform_rises_and_ends_at_the_last_layer(students: int, teachers: int) -> None:
    if students > teachers:
        with pytest.raises(UserError, match="explicit map"):
            layer_map("uniform", students, teachers)
        return
    layers = layer_map("uniform", students, teachers)
    assert len(layers) == students
    assert layers[-1] == teachers
    assert all(a < b for a, b in zip((0, *layers), layers, strict=False))


@pytest.mark.parametrize(
    ("name", "message"),
    [("unifrom", "uniform"), ("1,2", "names 2 layers"), ("1,2,9", "0 \\(embeddings\\) to 6"), ("1,a,2", "2,4,6")],
)
def test_a_wrong_map_is_explained(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        layer_map(name, 3, 6)


def test_only_layers_with_attention_are_compared_by_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="0,2: layer 0 is the embeddings"):
        check_attention((0, 2))
    check_attention((1, 2))
    with pytest.raises(UserError, match=r"--layer-map nearest is an option of python -m distill\.run"):
        GeneralConfig(out=tmp_path / "x", layer_map="nearest")
