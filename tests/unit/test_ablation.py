"""A recipe without each of its parts."""

import dataclasses

import pytest

from common.errors import UserError
from distill.ablation import WHOLE, ablations
from distill.config import DistilOptions
from distill.recipes import RECIPES, twin_recipe


def test_tinyberts_variants_are_those_of_the_papers_table() -> None:
    stages = RECIPES["tinybert"]()
    variants = ablations(stages)
    assert set(variants) == {
        WHOLE,
        *("no general", "no intermediate", "no prediction"),
        *("no embedding", "no hidden", "no attention"),
    }
    assert variants[WHOLE] == stages
    assert [stage.name for stage in variants["no general"]] == ["intermediate", "prediction"]
    for name in ("embedding", "hidden", "attention"):
        general, intermediate, prediction = variants[f"no {name}"]
        assert set(general.losses) == set(intermediate.losses) == {"embedding", "hidden", "attention"} - {name}
        assert prediction == stages[2]
    labels = variants["no prediction"][-1]
    assert (dict(labels.losses), labels.teacher, labels.epochs) == ({"hard": 1.0}, "none", stages[2].epochs)


def test_a_stage_that_trains_the_answers_keeps_one_term_that_does() -> None:
    variants = ablations(RECIPES["distil"]())
    assert set(variants) == {WHOLE, "no soft", "no hard", "no cosine"}
    losses = {name: set(stages[0].losses) for name, stages in variants.items()}
    assert losses["no soft"] == {"hard", "cosine"}
    assert losses["no cosine"] == {"soft", "hard"}


def test_a_stage_and_a_loss_of_one_name_are_two_variants() -> None:
    variants = ablations(RECIPES["albert"]())
    assert set(variants) == {WHOLE, "no hidden stage", "no soft stage", "no embedding", "no hidden"}
    assert [stage.name for stage in variants["no hidden stage"]] == ["soft"]
    assert [set(stage.losses) for stage in variants["no hidden"]] == [{"embedding"}, {"soft"}]


def test_each_variant_says_what_it_learns_from() -> None:
    variants = ablations(RECIPES["tiny"]())
    assert variants["no prediction"][-1].words == "The labels alone."
    assert variants["no attention"][0].words.endswith("attention scores. Without attention.")
    assert variants["no attention"][-1] == variants[WHOLE][-1]


def test_nearest_layers_can_be_ablated() -> None:
    (whole,) = RECIPES["pkd"]()
    variants = ablations((dataclasses.replace(whole, layers="nearest"),))
    assert set(variants["no pkd"][0].losses) == {"hard", "soft"}


def test_nothing_can_be_removed_from_one_loss() -> None:
    with pytest.raises(UserError, match="--ablate"):
        ablations(twin_recipe(RECIPES["distil"](), {"labeled": 100}))
    with pytest.raises(UserError, match="--ablate takes one recipe apart"):
        DistilOptions(ablate=True, recipe="fast,pkd")
