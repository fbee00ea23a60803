"""The students by name: shapes for teachers of many sizes, and what is refused."""

from dataclasses import replace
from typing import Any

import pytest
from transformers import BertConfig, GPT2Config

from common.errors import UserError
from students.presets import STARTS, STUDENTS, StudentConfig, evenly_spaced, student_preset, with_start


def teacher(layers: int, hidden: int, heads: int) -> BertConfig:
    return BertConfig(
        num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads, intermediate_size=4 * hidden
    )


BASE, MINILM, MINI, TINY = teacher(12, 768, 12), teacher(6, 384, 12), teacher(4, 256, 4), teacher(2, 128, 2)


@pytest.mark.parametrize(
    ("config", "layers", "hidden", "heads", "ffn", "teacher_layers"),
    [
        (BASE, 4, 312, 12, 1200, (0, 4, 7, 11)),
        (MINILM, 4, 312, 12, 1200, (0, 2, 3, 5)),
        (MINI, 2, 152, 4, 585, (0, 3)),
        (TINY, 1, 76, 2, 292, (0,)),
        (teacher(8, 512, 8), 4, 312, 8, 1200, (0, 2, 5, 7)),
        (teacher(24, 1024, 16), 4, 312, 12, 1200, (0, 8, 15, 23)),
    ],
)
def test_tiny(
    config: BertConfig, layers: int, hidden: int, heads: int, ffn: int, teacher_layers: tuple[int, ...]
) -> None:
    assert student_preset("tiny", config) == StudentConfig(
        name="tiny",
        family="bert",
        layers=layers,
        hidden=hidden,
        heads=heads,
        ffn=ffn,
        teacher_layers=teacher_layers,
        start="prune",
    )


@pytest.mark.parametrize(
    ("config", "teacher_layers"), [(BASE, (0, 2, 4, 7, 9, 11)), (MINILM, (0, 3, 5)), (MINI, (0, 3)), (TINY, (0,))]
)
def test_distil_is_half_the_layers_in_the_teachers_width(config: BertConfig, teacher_layers: tuple[int, ...]) -> None:
    student = student_preset("distil", config)
    assert (student.family, student.start, student.layers) == ("distilbert", "copy", config.num_hidden_layers // 2)
    assert (student.hidden, student.heads, student.ffn) == (
        config.hidden_size,
        config.num_attention_heads,
        config.intermediate_size,
    )
    assert student.teacher_layers == teacher_layers


@pytest.mark.parametrize(("config", "embedding"), [(BASE, 128), (MINILM, 128), (MINI, 128), (TINY, 64)])
def test_albert_is_the_teachers_shape_with_one_block(config: BertConfig, embedding: int) -> None:
    student = student_preset("albert", config)
    assert (student.family, student.start, student.sharing, student.blocks) == ("albert", "svd", "all", 1)
    assert (student.layers, student.hidden) == (config.num_hidden_layers, config.hidden_size)
    assert student.embedding == embedding


def test_evenly_spaced_keeps_first_and_last_and_rises() -> None:
    for layers in range(2, 25):
        for count in range(2, layers + 1):
            chosen = evenly_spaced(layers, count)
            assert (chosen[0], chosen[-1], len(set(chosen))) == (0, layers - 1, count)
            assert list(chosen) == sorted(chosen)
    assert evenly_spaced(5, 1) == (0,)
    with pytest.raises(UserError, match="3 layers of a teacher that has 2"):
        evenly_spaced(2, 3)


def test_an_unknown_student_is_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match="unknown student 'tinny': did you mean 'tiny'"):
        student_preset("tinny", BASE)


@pytest.mark.parametrize("name", STUDENTS)
def test_other_teachers_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"'gpt2': teachers are of bert, roberta"):
        student_preset(name, GPT2Config())
    with pytest.raises(UserError, match="decoder"):
        student_preset(name, BertConfig(is_decoder=True))


def test_with_start_changes_the_start_alone() -> None:
    tiny = student_preset("tiny", BASE)
    assert with_start(tiny, None) is tiny
    assert with_start(tiny, "random") == replace(tiny, start="random")
    with pytest.raises(UserError, match=r"unknown start of a bert student 'svd'.*prune, random"):
        with_start(tiny, "svd")


PROBLEMS: list[tuple[dict[str, Any], str]] = [
    ({"family": "brt"}, "did you mean 'bert'"),
    ({"hidden": 30}, "hidden 30 is not a multiple of heads 4"),
    ({"layers": 0}, "layers is 0"),
    ({"ffn": -1}, "ffn is -1"),
    ({"start": "copy"}, "unknown start"),
    ({"start": "prune"}, "needs teacher_layers"),
    ({"teacher_layers": (0, 1, 2)}, "names 3 layers for 2"),
    ({"teacher_layers": (1, 0)}, "rising"),
    ({"teacher_layers": (-1, 0)}, "rising"),
    ({"embedding": 8}, "embedding are for the albert family only"),
    ({"family": "albert"}, "embedding is None.*sharing is None"),
    ({"family": "albert", "embedding": 16, "sharing": "atention"}, "did you mean 'attention'"),
    ({"family": "albert", "embedding": 16, "sharing": 3}, "3 groups do not divide 2 layers"),
    ({"family": "albert", "embedding": 16, "sharing": "none", "teacher_layers": (0, 1, 2)}, "2 groups do not share"),
]


@pytest.mark.parametrize(("changes", "message"), PROBLEMS)
def test_impossible_students_are_refused(changes: dict[str, Any], message: str) -> None:
    fine = StudentConfig(name="mine", family="bert", layers=2, hidden=32, heads=4, ffn=64, start="random")
    with pytest.raises(UserError, match=f"student 'mine': .*{message}"):
        replace(fine, **changes)


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(UserError, match=r"unknown start.*layers is 0.*ffn is 0"):
        StudentConfig(name="mine", family="bert", layers=0, hidden=32, heads=4, ffn=0, start="x")


def test_every_family_can_start_at_random() -> None:
    assert all("random" in starts for starts in STARTS.values())
