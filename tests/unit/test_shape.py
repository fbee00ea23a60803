"""Students of any shape: what a changed size does to a preset, and what is refused, with the way out."""

import dataclasses

import pytest
from transformers import BertConfig

from common.errors import UserError
from distill.cards import START_WORDS
from distill.config import DistilOptions, RunConfig
from distill.layers import layer_map
from distill.recipes import RECIPES
from distill.shapes import deep_map, fitting, planned_student
from students.presets import STARTS, STUDENTS, student_preset
from students.shape import ShapeOptions

MINILM = BertConfig(num_hidden_layers=6, hidden_size=384, num_attention_heads=12, intermediate_size=1536)

FAMILY = {name: student_preset(name, MINILM).family for name in STUDENTS}


def plan(name: str, start: str | None = None, **shape: object):
    return planned_student(name, MINILM, ShapeOptions(**shape), start=start)


def test_nothing_asked_for_is_the_preset() -> None:
    for name in ("tiny", "distil", "albert"):
        assert plan(name) == student_preset(name, MINILM)


def test_every_size_can_be_given() -> None:
    student = plan("tiny", layers=3, hidden=192, heads=12, ffn=700)
    assert (student.layers, student.hidden, student.heads, student.ffn) == (3, 192, 12, 700)
    assert (student.start, student.teacher_layers) == ("prune", (0, 3, 5))


def test_the_feed_forward_part_follows_the_width() -> None:
    assert plan("tiny", hidden=156).ffn == 600
    assert plan("distil", start="random", hidden=192).ffn == 768
    assert plan("distil", layers=2).teacher_layers == (0, 5)


@pytest.mark.parametrize("sharing", ["all", "attention", "ffn", "none", "2", "3"])
def test_albert_shares_as_asked(sharing: str) -> None:
    student = plan("albert", sharing=sharing, embedding=64)
    assert student.sharing == (int(sharing) if sharing.isdecimal() else sharing)
    assert (student.embedding, student.start, student.layers) == (64, "svd", 6)
    assert student.blocks == {"all": 1, "2": 2, "3": 3}.get(sharing, 6)


def test_albert_in_another_width_has_an_embedding_that_fits() -> None:
    assert plan("albert", start="random", hidden=96).embedding == 48
    assert plan("albert", start="random", hidden=384 * 2).embedding == 128
    small = BertConfig(num_hidden_layers=2, hidden_size=128, num_attention_heads=2, intermediate_size=512)
    assert planned_student("albert", small, ShapeOptions(hidden=512), start="random").embedding == 128


def test_random_students_may_be_deeper_and_wider_than_the_teacher() -> None:
    for name in ("tiny", "distil", "albert"):
        student = plan(name, start="random", layers=9, hidden=768)
        assert (student.layers, student.hidden, student.teacher_layers) == (9, 768, None)
    # What is shared by all layers can be the mean of fewer.
    assert plan("albert", layers=12).teacher_layers == (0, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("tiny", {"hidden": 200}, "--hidden 200 is not a multiple of the 12 heads.*--heads 1, 2, 4, 5.*192 or 204"),
        ("tiny", {"layers": 8}, "--layers 8.*which has 6: choose --layers 1 to 6, or --start random"),
        ("distil", {"layers": 8}, "--layers 8.*--start random"),
        ("albert", {"layers": 12, "sharing": "none"}, "--layers 12.*--start random"),
        ("tiny", {"hidden": 768}, "hidden 768 of 384.*--start random"),
        ("tiny", {"hidden": 192, "heads": 4}, "a head 48 of 32.*--start random"),
        ("tiny", {"ffn": 2000}, "ffn 2000 of 1536"),
        ("distil", {"hidden": 192}, "must be the teacher's.*--start random"),
        ("albert", {"hidden": 192}, "must be the teacher's.*--start random"),
        ("albert", {"embedding": 400}, "embedding 400 is over the width 384.*--start random"),
        ("albert", {"sharing": "4"}, "4 groups do not divide 6 layers"),
    ],
)
def test_what_cannot_start_is_refused_with_the_way_out(name: str, shape: dict, words: str) -> None:
    with pytest.raises(UserError, match=words):
        plan(name, **shape)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ({"layers": 0}, "--layers 0: expected 1 or more"),
        ({"hidden": 100, "heads": 3}, "--hidden 100 is not a multiple of --heads 3"),
        ({"sharing": "atention"}, "did you mean 'attention'.*or a number of groups"),
        ({"sharing": "0"}, "unknown --sharing '0'"),
        ({"embedding": 2}, "--embedding 2"),
    ],
)
def test_options_that_are_wrong_by_themselves(shape: dict, words: str) -> None:
    with pytest.raises(UserError, match=words):
        ShapeOptions(**shape)


def test_options_that_no_student_has_are_refused() -> None:
    with pytest.raises(UserError, match="--sharing: for --student albert only"):
        RunConfig(student="tiny", shape=ShapeOptions(sharing="all"))
    RunConfig(student="tiny,albert", shape=ShapeOptions(sharing="all"))


def test_a_general_start_needs_its_folder_and_nothing_else(tmp_path) -> None:
    with pytest.raises(UserError, match=r"--start general: give .* --student-from"):
        RunConfig(distilling=DistilOptions(start="general"))
    with pytest.raises(UserError, match="leave out --layers, --start prune"):
        RunConfig(distilling=DistilOptions(start="prune", student_from=tmp_path), shape=ShapeOptions(layers=2))


@pytest.mark.parametrize(("name", "start"), [(name, start) for name in STUDENTS for start in STARTS[FAMILY[name]]])
def test_every_start_can_be_chosen_and_has_words_for_the_report(name: str, start: str, tmp_path) -> None:
    folder = tmp_path if start == "general" else None
    config = RunConfig(student=name, distilling=DistilOptions(start=start, student_from=folder))
    assert config.distilling.start == start
    assert START_WORDS[start].format(layers="1, 2", folder=tmp_path)
    if folder is None:
        assert plan(name, start=start).start == start


def test_a_student_deeper_than_its_teacher_has_layers_that_share_a_teacher_layer() -> None:
    assert deep_map(12, 6) == "1,1,2,2,3,3,4,4,5,5,6,6"
    for students in range(1, 15):
        for teachers in range(1, students + 1):
            layers = layer_map(deep_map(students, teachers), students, teachers)
            assert layers[-1] == teachers
            assert set(layers) == set(range(1, teachers + 1))
            assert list(layers) == sorted(layers)
    for name in ("tiny", "albert"):
        student = plan(name, start="random", layers=9)
        stages = fitting(RECIPES[name](), student, MINILM)
        layered = [stage for stage in stages if "hidden" in stage.losses]
        assert layered and all(stage.layers == deep_map(9, 6) for stage in layered)
        (distil, *_) = fitting(RECIPES["distil"](), student, MINILM)
        assert distil.layers == deep_map(9, 6)
    shallow = plan("tiny", layers=3)
    assert fitting(RECIPES["tiny"](), shallow, MINILM) == RECIPES["tiny"]()


def test_a_student_from_general_text_skips_that_stage() -> None:
    student = dataclasses.replace(plan("tiny"), start="general", folder="somewhere", teacher_layers=None)
    assert [stage.name for stage in fitting(RECIPES["tiny"](), student, MINILM)] == ["intermediate", "prediction"]
