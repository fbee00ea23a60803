"""A recipe without each of its parts."""

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


def test_nothing_can_be_removed_from_one_loss() -> None:
    with pytest.raises(UserError, match="--ablate"):
        ablations(twin_recipe(RECIPES["distil"]()))
    with pytest.raises(UserError, match="--ablate takes one recipe apart"):
        DistilOptions(ablate=True, recipe="fast,pkd")
