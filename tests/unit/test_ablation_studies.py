"""Which encoders the studies of pretraining ask for, what is refused, and how rows are made of answers."""

import json
from pathlib import Path

import numpy as np
import pytest
from toy import toy_task

from common.errors import UserError
from teacher.ablation_answers import Answers
from teacher.ablation_config import AblateConfig, PretrainingOptions, encoder_name
from teacher.ablation_rows import Finished, study
from teacher.ablation_studies import STUDIES


def _config(study: str = "all", **options: object) -> AblateConfig:
    pretraining = {name: options.pop(name) for name in ("size", "steps", "minutes", "length") if name in options}
    return AblateConfig(study=study, out=Path("runs/out"), pretraining=PretrainingOptions(**pretraining), **options)


def test_what_studies_share_is_one_encoder() -> None:
    config = _config()
    names = {
        (plan.name, variant.name): encoder_name(config.pretrain_config(variant, 0))
        for plan in config.plans
        for variant in plan.variants
    }
    shared = {names["objective", "MLM + NSP"], names["depth", "4 layers"], names["masking", "pieces, dynamic"]}
    shared |= {name for (plan, _), name in names.items() if plan == "features"}
    assert len(shared) == 1
    # Two further objectives, three further depths, three further ways of masking.
    assert len(set(names.values())) == 1 + 2 + 3 + 3
    other_seed = encoder_name(config.pretrain_config(config.plans[0].variants[0], 1))
    assert other_seed not in names.values()


def test_each_study_changes_one_thing() -> None:
    config = _config(depths="2,6")
    for plan in config.plans:
        first, *others = (config.pretrain_config(variant, 0).settings() for variant in plan.variants)
        for settings in others:
            changed = {name for name in first.keys() | settings.keys() if first.get(name) != settings.get(name)}
            assert len(changed) == (0 if plan.name == "features" else 1), (plan.name, changed)
    depths = next(plan for plan in config.plans if plan.name == "depth")
    assert [variant.name for variant in depths.variants] == ["2 layers", "6 layers"]


def test_curves_have_ten_points_where_the_steps_are_known() -> None:
    for options, every in (({}, 200), ({"steps": 50}, 5), ({"steps": 3}, 1), ({"minutes": 2.0}, 200)):
        config = _config("objective", **options)
        assert config.pretrain_config(config.plans[0].variants[0], 0).schedule.evaluate_every == every
    assert "2,000 steps" in _config().budget
    assert "about 2 minutes" in _config(minutes=2.0).budget


def test_a_shallow_encoder_names_the_layers_it_has() -> None:
    (two,) = _config("features", size="tiny").plans
    assert [variant.name for variant in two.variants[3:5]] == ["last two, concatenated", "last two, summed"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"study": "objectiv"}, ["unknown --study 'objectiv'", "did you mean 'objective'", *STUDIES]),
        ({"study": "depth,"}, ["unknown --study ''"]),
        ({"depths": "1,two"}, ["--depths 1,two: expected different whole numbers"]),
        ({"depths": "2,2"}, ["--depths 2,2"]),
        ({"depths": "0,1"}, ["--depths 0,1"]),
        ({"seeds": 0}, ["--seeds 0: expected at least 1"]),
        ({"size": "minni"}, ["unknown --size 'minni'", "'mini'"]),
        ({"steps": 5, "minutes": 1.0, "length": 7}, ["--steps and --minutes contradict", "--length 7"]),
    ],
)
def test_mistakes_are_named(options: dict, words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        _config(**options)
    message = str(caught.value)
    assert all(word in message for word in words), message
    # All rows have the same fault: it is said once.
    assert all(message.count(word) == 1 for word in words if word.startswith("--steps"))


def test_the_name_of_the_list_of_runs_is_refused() -> None:
    with pytest.raises(UserError, match="--out runs/index"):
        AblateConfig(out=Path("runs/index"))


def _encoder(folder: Path, *, steps: int, accuracy: float, note: str | None = None) -> Path:
    """A finished pretraining, as far as a row looks at it."""
    folder.mkdir()
    held_out = {"mlm_accuracy": accuracy, "mlm_loss": 5.0}
    summary = {"steps": steps, "tokens": 100 * steps, "seconds": steps / 2, "parameters": 7, "unigram_loss": 6.0}
    summary |= {"held_out": held_out, "notes": [note] if note else [], "settings": {}, "corpus": "toy"}
    (folder / "pretraining.json").write_text(json.dumps(summary), encoding="utf-8")
    lines = [{"step": 1, "loss": 9.0}, {"step": 2, "held-out mlm accuracy": 0.1, "selection metric": -5.0}]
    (folder / "history.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return folder


def test_rows_are_means_over_seeds_with_an_interval_against_the_first(tmp_path: Path) -> None:
    task = toy_task(rows=90)
    right = np.arange(90) % 3
    wrong = np.where(np.arange(90) < 30, (right + 1) % 3, right)
    few = np.where(np.arange(90) < 9, (right + 1) % 3, right)
    plan = STUDIES["objective"]("mini", (1,))
    first, second, third = (variant.name for variant in plan.variants)
    encoders = [_encoder(tmp_path / str(seed), steps=10 + 10 * seed, accuracy=0.2 * seed) for seed in (0, 1)]
    bad = _encoder(tmp_path / "bad", steps=10, accuracy=0.0, note="no context was learned")

    def answered(predictions: list[np.ndarray], folders: list[Path]) -> dict[int, Finished]:
        return {
            seed: Finished(encoder=folder, answers=Answers(predictions=one, seconds=4.0 + seed))
            for seed, (one, folder) in enumerate(zip(predictions, folders, strict=True))
        }

    results = {
        first: answered([wrong, wrong], encoders),
        second: answered([few, right], encoders),
        third: answered([wrong, wrong], [encoders[0], bad]),
    }
    made = study(plan, results, task)
    base, better, same = made.rows
    assert (base.value, base.spread, base.against_first) == (pytest.approx(2 / 3), 0.0, None)
    assert better.by_seed == {"0": pytest.approx(0.9), "1": 1.0}
    assert better.spread == pytest.approx(np.std([0.9, 1.0], ddof=1))
    assert better.metrics["accuracy"] == better.value == pytest.approx(0.95)
    assert better.against_first is not None
    assert better.against_first.difference == pytest.approx(0.95 - 2 / 3)
    assert 0 < better.against_first.low < better.against_first.difference < better.against_first.high
    assert same.against_first is not None
    assert (same.against_first.low, same.against_first.high) == (0.0, 0.0)
    assert same.notes == ("seed 1: no context was learned",)
    assert base.task_seconds == 4.5
    made_of = base.pretraining
    assert (made_of.encoder, made_of.steps, made_of.tokens, made_of.seconds) == ("0", 15.0, 1500.0, 7.5)
    assert made_of.held_out == {"mlm_accuracy": pytest.approx(0.1), "mlm_loss": 5.0}
    assert [(curve.name, curve.steps, curve.values) for curve in made_of.curves] == [("mlm_accuracy", (2,), (0.1,))]
