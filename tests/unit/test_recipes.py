"""Recipes: the papers' settings, equal steps, and what cannot be done with a student, said before training."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertConfig

from common.errors import UserError
from distill.changes import ChangeOptions
from distill.committee import CommitteeOptions
from distill.config import DistilOptions, RunConfig
from distill.contest import Recipes, check_recipes, chosen_recipes, on_equal_steps
from distill.fit import relation_heads
from distill.layers import relation_layer
from distill.recipes import RECIPES, outputs_recipe, recipe_for, twin_recipe
from distill.stages import Stage, equalised, scaled, steps_of
from distill.transfer_options import TransferOptions
from students.presets import student_preset


def _teacher(layers: int, hidden: int, heads: int) -> BertConfig:
    return BertConfig(
        num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads, intermediate_size=4 * hidden
    )


def _config(
    recipe: str, student: str = "tiny", transfer: TransferOptions | None = None, **options: object
) -> RunConfig:
    return RunConfig(
        student=student,
        distilling=DistilOptions(recipe=recipe, **options),
        transfer=transfer or TransferOptions(),
    )


def test_the_published_settings_reach_the_loop() -> None:
    def loop(stage: Stage, examples: int) -> tuple[object, ...]:
        config = stage.loop(examples=examples, seed=0, precision="fp32", checkpoint_every=10)
        return config.learning_rate, config.steps, config.warmup, config.schedule, config.betas, config.clip

    general, intermediate, prediction = RECIPES["tinybert"]()
    assert loop(general, 320) == (5e-5, 30, 0.1, "linear", (0.9, 0.999), 1.0)
    assert loop(intermediate, 320) == (5e-5, 200, 0.0, "constant", (0.9, 0.999), 1.0)
    assert loop(prediction, 320) == (3e-5, 30, 0.1, "linear", (0.9, 0.999), 1.0)
    assert general.losses == intermediate.losses == {"embedding": 1.0, "hidden": 1.0, "attention": 1.0}
    (distil,) = RECIPES["distilbert"]()
    assert loop(distil, 320) == (5e-4, 30, 0.05, "linear", (0.9, 0.98), 5.0)
    assert (distil.losses, distil.temperature) == ({"soft": 5.0, "hard": 2.0, "cosine": 1.0}, 2.0)


def test_fast_is_the_students_own() -> None:
    assert recipe_for("fast", "albert") == RECIPES["albert"]()
    assert recipe_for("pkd", "albert") == RECIPES["pkd"]()


@given(st.permutations(sorted(RECIPES)), st.integers(1, 5000), st.floats(0.01, 3))
def test_compared_recipes_have_the_steps_of_the_first(names: list[str], examples: int, budget: float) -> None:
    recipes = [scaled(RECIPES[name](), budget) for name in names]
    first = sum(stage.length(examples) for stage in recipes[0])
    equal = equalised(recipes, {"labeled": examples})
    for stages, before in zip(equal, recipes, strict=True):
        assert sum(stage.length(examples) for stage in stages) == max(first, 3)
        assert min(stage.length(examples) for stage in stages) >= 1
        shares = [stage.length(examples) / sum(other.length(examples) for other in before) for stage in before]
        for stage, share in zip(stages, shares, strict=True):
            assert stage.length(examples) == pytest.approx(share * max(first, 3), abs=4)


def _chosen(recipe: str, **options: object) -> Recipes:
    teacher = _teacher(6, 384, 12)
    return chosen_recipes(
        _config(recipe, **options), "classification", "tiny", student_preset("tiny", teacher), teacher
    )


def test_one_recipe_keeps_its_length_and_a_compared_twin_has_the_others_steps() -> None:
    recipes, sizes = _chosen("tiny,pkd", budget=0.5), {"labeled": 1000}
    assert on_equal_steps({"tiny": recipes["tiny"]}, sizes) == {"tiny": recipes["tiny"]}
    equal = on_equal_steps(recipes, sizes)
    steps = {name: sum(stage.length(1000) for stage in stages) for name, stages in equal.items()}
    assert steps["pkd"] == steps["tiny"] == sum(stage.length(1000) for stage in recipes["tiny"])
    (twin,) = twin_recipe(equal["tiny"], sizes, steps=steps["tiny"])
    assert twin.length(1000) == steps["tiny"]
    assert "each recipe" in twin.description


def test_equal_steps_are_counted_on_the_sets_that_stages_draw_from() -> None:
    recipes = _chosen("tiny,minilmv2", transfer=TransferOptions(augment=2))
    assert [stage.data for stage in recipes["tiny"]] == ["text", "augmented", "mixed"]
    assert [stage.data for stage in recipes["minilmv2"]] == ["augmented", "augmented"]
    sizes = {"labeled": 3200, "augmented": 8000}
    equal = on_equal_steps(recipes, sizes)
    # 50 of general text, half an epoch of 250 steps, but 150 at least, and two of 350.
    assert steps_of(equal["tiny"], sizes) == steps_of(equal["minilmv2"], sizes) == 50 + 150 + 700
    assert [stage.steps for stage in equal["tiny"]] == pytest.approx([50, 150, 700], abs=1)
    assert [stage.steps for stage in equal["minilmv2"]] == pytest.approx([300, 600], abs=1)
    (twin,) = twin_recipe(equal["minilmv2"], sizes, steps=steps_of(equal["minilmv2"], sizes))
    assert twin.length(320) == 900


def test_outputs_have_a_recipe_of_their_own_and_no_layers_for_another() -> None:
    transfer = TransferOptions(teacher_outputs=Path("outputs.csv"))
    teacher = _teacher(6, 384, 12)
    for student in ("tiny", "distil", "albert"):
        assert check_recipes(_config("fast", student, transfer=transfer), "classification", teacher) == ()
        with pytest.raises(UserError, match=rf"recipe pkd, .*student {student}.*\(pkd\).*leave --recipe out"):
            check_recipes(_config("fast,pkd", student, transfer=transfer), "classification", teacher)
    assert _chosen("fast", transfer=transfer, budget=0.5) == {"fast": scaled(outputs_recipe(), 0.5)}


def test_recipes_are_checked_as_options() -> None:
    with pytest.raises(UserError, match="unknown recipe 'minilmv': did you mean 'minilmv2'"):
        _config("fast,minilmv")
    with pytest.raises(UserError, match="--recipe fast,fast names one twice"):
        _config("fast,fast")
    with pytest.raises(UserError, match="expected one or more of fast"):
        _config(",")
    with pytest.raises(UserError, match="--relation-heads 0"):
        _config("minilmv2", relation_heads=0)


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("classification", {"changes": ChangeOptions(layer_map="top")}, "recipe fast, student distil: --layer-map top"),
        ("regression", {"changes": ChangeOptions(temperature="4")}, "--temperature 4: .* regression"),
        ("regression", {"committee": CommitteeOptions(teacher_temperatures="4")}, "--teacher-temperatures 4: "),
        ("classification", {"distilling": DistilOptions(relation_heads=12)}, "--recipe minilmv2 too"),
        (
            "classification",
            {"committee": CommitteeOptions(more_teachers="a"), "changes": ChangeOptions(loss_weights="soft=0")},
            "--more-teachers: no stage learns",
        ),
    ],
)
def test_options_that_nothing_would_heed_are_refused(kind: str, options: dict[str, object], words: str) -> None:
    with pytest.raises(UserError, match=words):
        check_recipes(RunConfig(student="distil", **options), kind, _teacher(6, 384, 12))


def test_a_recipe_without_its_layered_losses_can_learn_from_outputs() -> None:
    transfer, changes = TransferOptions(teacher_outputs=Path("outputs.csv")), ChangeOptions(loss_weights="cosine=0")
    config = RunConfig(distilling=DistilOptions(recipe="distil"), transfer=transfer, changes=changes)
    assert check_recipes(config, "classification", _teacher(6, 384, 12)) == ()


def test_attention_cannot_be_compared_with_the_embeddings() -> None:
    teacher, changes = _teacher(6, 384, 12), ChangeOptions(layer_map="0,2,4,6")
    with pytest.raises(UserError, match=r"recipe tiny, stage general, .*0,2,4,6: layer 0 is the embeddings"):
        check_recipes(RunConfig(distilling=DistilOptions(recipe="tiny"), changes=changes), "classification", teacher)
    with_states = RunConfig(distilling=DistilOptions(recipe="albert"), changes=changes)
    assert check_recipes(with_states, "classification", teacher) == ()


@pytest.mark.parametrize(
    ("recipe", "teacher", "options", "words"),
    [
        ("pkd", _teacher(2, 128, 2), {}, ["recipe pkd", "student tiny", "2 layers or more", "minilmv2"]),
        ("minilmv2", _teacher(6, 384, 12), {"relation_heads": 16}, ["312", "384", "leave it out for 24", "1, 2, 3"]),
    ],
)
def test_what_cannot_be_done_names_the_way_out(
    recipe: str, teacher: BertConfig, options: dict[str, object], words: list[str]
) -> None:
    with pytest.raises(UserError) as error:
        check_recipes(_config(recipe, **options), "classification", teacher)
    assert all(word in str(error.value) for word in words), error.value


def test_unequal_heads_are_said_with_the_alternative() -> None:
    (note,) = check_recipes(_config("fast,tinybert"), "classification", _teacher(24, 1024, 16))
    assert "12 attention heads, the teacher 16" in note
    assert "--recipe minilmv2" in note
    assert check_recipes(_config("fast"), "classification", _teacher(6, 384, 12)) == ()
    assert check_recipes(_config("minilmv2,distilbert"), "classification", _teacher(24, 1024, 16)) == ()


def test_relations_divide_both_widths_and_come_from_one_layer() -> None:
    assert relation_heads(312, 384, None) == 24
    assert relation_heads(768, 1024, None) == 32
    assert relation_heads(312, 384, 12) == 12
    assert [relation_layer(layers) for layers in (3, 12, 16, 24)] == [3, 12, 14, 21]
    stages = _chosen("minilmv2", relation_heads=12)["minilmv2"]
    assert [stage.relation_heads for stage in stages] == [12, None]


def test_every_recipe_says_what_its_stages_are() -> None:
    for name, recipe in RECIPES.items():
        stages = recipe()
        assert len({stage.name for stage in stages}) == len(stages), name
        assert all(stage.description.endswith(".") for stage in stages), name
        assert stages[-1].select, name
        assert dataclasses.replace(stages[0], steps=1).length(10) == 1


def test_attention_is_not_learned_from_the_embeddings() -> None:
    changes = ChangeOptions(layer_map="0,2,4,6")
    with pytest.raises(UserError, match=r"stage general, student tiny: layer map 0,2,4,6.*no attention to compare"):
        check_recipes(RunConfig(changes=changes), "classification", _teacher(6, 384, 12))
    hidden_alone = ChangeOptions(layer_map="0,2,4,6", loss_weights="attention=0")
    assert check_recipes(RunConfig(changes=hidden_alone), "classification", _teacher(6, 384, 12)) == ()
