"""Changes to a recipe from the command line."""

import dataclasses

import numpy as np
import pytest
from transformers import BertConfig

from common.errors import UserError
from distill.changes import ChangeOptions, changed
from distill.config import RunConfig
from distill.contest import check_recipes
from distill.recipes import RECIPES
from distill.schedules import Schedule
from distill.stages import filled, without
from teacher.batches import mean_padded


def test_no_change_leaves_a_recipe_as_it_is() -> None:
    for recipe in RECIPES.values():
        assert changed(recipe(), ChangeOptions()) == recipe()


def test_each_change_goes_where_it_applies() -> None:
    options = ChangeOptions(
        layer_map="nearest", projection="per-layer", temperature="8..1", loss_weights="hidden=0.5,attention=0,soft=2..1"
    )
    general, intermediate, prediction = changed(RECIPES["tiny"](), options)
    for stage in (general, intermediate):
        assert (stage.layers, stage.projection) == ("nearest", "per layer")
        assert dict(stage.losses) == {"embedding": 1.0, "hidden": 0.5}
        assert stage.temperature == 1.0
    assert dict(prediction.losses) == {"soft": Schedule(start=2.0, end=1.0), "hard": 1.0}
    assert prediction.temperature == Schedule(start=8.0, end=1.0)
    assert prediction.layers == "uniform"
    assert general.words.endswith("attention scores. Without attention.")
    assert prediction.words.endswith("on the task's texts. Temperature 8 to 1, linear.")


@pytest.mark.parametrize(("length", "texts"), [(10, 48), (60, 12), (800, 1)])
def test_batches_hold_the_pieces_asked_for_however_long_texts_are(length: int, texts: int) -> None:
    pieces = mean_padded(np.full(100, length))
    for recipe in ("tiny", "tinybert"):
        *_, last = changed(RECIPES[recipe](), ChangeOptions(batch_tokens=768))
        assert (filled(last, pieces).batch_size, filled(last, pieces).tokens) == (texts, 768)
        sets = dataclasses.replace(last, data="mixed", mix={"labeled": None, "augmented": None})
        assert (filled(sets, pieces).batch_size, filled(sets, pieces).tokens) == (texts, None)
    *_, own = RECIPES["tiny"]()
    assert filled(own, pieces).batch_size == (64 if length == 10 else 32)


def test_pieces_of_a_batch_count_for_augmented_and_unlabelled_texts_too() -> None:
    for data, mix in (("augmented", {}), ("mixed", {"labeled": None, "unlabeled": None}), ("train", {})):
        own = tuple(without(stage, ["hard"]) for stage in RECIPES["tiny"]())
        stages = tuple(dataclasses.replace(stage, data=data, mix=mix) if stage.sets else stage for stage in own)
        general, *others = changed(stages, ChangeOptions(batch_tokens=512))
        assert (general.tokens, general.at_most) == (None, False)
        assert {(stage.tokens, stage.at_most) for stage in others} == {(512, True)}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layer_map": "unifrom"}, "uniform"),
        ({"projection": "each"}, "--projection each: expected shared or per-layer"),
        ({"temperature": "warm"}, "--temperature warm: expected a number"),
        ({"temperature": "1..2..3"}, "--temperature"),
        ({"loss_weights": "sfot=1"}, "soft"),
        ({"loss_weights": "soft"}, "NAME=NUMBER"),
        ({"loss_weights": "soft=1,soft=2"}, "--loss-weights soft=1,soft=2 names soft twice"),
        ({"loss_weights": "soft=x"}, "--loss-weights soft x: expected a number"),
    ],
)
def test_what_cannot_be_read_is_refused_by_option(options: dict[str, str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        ChangeOptions(**options)


@pytest.mark.parametrize(
    ("recipe", "options", "words"),
    [
        ("distil", {"layer_map": "top"}, "--layer-map top: no stage"),
        ("minilmv2", {"projection": "shared"}, "--projection shared: no stage"),
        ("distil", {"loss_weights": "attention=1"}, "--loss-weights attention: no stage"),
        ("tinybert", {"loss_weights": "soft=0"}, "the stage prediction is left without a loss"),
        ("tiny", {"layer_map": "top", "loss_weights": "hidden=0,attention=0"}, "--layer-map top: no stage"),
        ("distil", {"temperature": "4", "loss_weights": "soft=0"}, "--temperature 4: no stage"),
        ("tiny", {"loss_weights": "soft=-1"}, "expected 0 or more"),
        ("tiny", {"layer_map": "nearest", "loss_weights": "hidden=0,embedding=0"}, "compares hidden states"),
    ],
)
def test_a_change_that_cannot_be_is_refused(recipe: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        changed(RECIPES[recipe](), ChangeOptions(**options))


def test_a_projection_is_refused_where_no_student_has_one() -> None:
    teacher = BertConfig(num_hidden_layers=6, hidden_size=384, num_attention_heads=12, intermediate_size=1536)
    changes = ChangeOptions(projection="per-layer")
    check_recipes(RunConfig(student="tiny,distil", changes=changes), "classification", teacher)
    with pytest.raises(UserError, match="--projection per-layer: distil as wide as the teacher, so that nothing"):
        check_recipes(RunConfig(student="distil", changes=changes), "classification", teacher)
