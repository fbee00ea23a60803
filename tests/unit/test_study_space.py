"""The space of a study: nothing impossible can be drawn, and it is fixed and narrowed as the user says, or refused."""

import json
from pathlib import Path

import numpy as np
import optuna
import pytest
from toy import toy_task
from transformers import BertConfig

from common.errors import UserError
from distill.changes import ChangeOptions, changed
from distill.config import RunConfig
from distill.contest import check_recipes
from distill.recipes import RECIPES
from distill.stages import filled
from distill.study_config import SearchOptions, StudyConfig
from distill.study_narrowing import narrowed
from distill.study_shipping import compression, fixed_chain
from distill.study_space import Space, defaults, drawn, for_texts, samples, student_space
from distill.study_students import searched_students
from distill.study_trial import run_config
from teacher.batches import mean_padded

TEACHER = BertConfig(num_hidden_layers=6, hidden_size=384, num_attention_heads=12, intermediate_size=1536)


def space_of(student: str = "tiny") -> Space:
    return student_space(student, TEACHER, kind="classification", recipe="fast", start=None)


def narrow(fix: str = "", ranges: str = "", file: Path | None = None) -> Space:
    return narrowed(space_of(), fix, ranges, file)


def draws(space: Space, count: int = 60) -> list[dict[str, int | float | str]]:
    """Settings as a random sampler draws them."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    return [drawn(space, study.ask()) for _ in range(count)]


@pytest.mark.parametrize("student", ["tiny", "distil", "albert"])
def test_everything_drawn_is_possible(student: str) -> None:
    space = narrowed(space_of(student), "", "", None)
    for settings in [*draws(space), *samples(space)]:
        options = run_config(StudyConfig(student=student), settings)
        assert isinstance(options, RunConfig)
        if "hidden" in settings:
            assert int(settings["hidden"]) % int(settings["heads"]) == 0
            assert options.shape.hidden == settings["hidden"]
    first = defaults(space)
    assert first is not None and all(space[name].holds(value) for name, value in first.items())


@pytest.mark.parametrize("student", ["tiny", "distil", "albert"])
def test_no_student_has_fewer_layers_than_its_losses_need(student: str) -> None:
    space = narrowed(student_space(student, TEACHER, kind="classification", recipe="pkd", start=None), "", "", None)
    assert (space["layers"].low, space_of(student)["layers"].low) == (2, 1)
    for settings in samples(space):
        check_recipes(run_config(StudyConfig(student=student, recipe="pkd"), settings), "classification", TEACHER)


def test_widths_are_multiples_of_every_head_count_in_the_space() -> None:
    space = narrow(ranges="heads=4|6|12,hidden=100..200")
    assert (space["hidden"].low, space["hidden"].high, space["hidden"].step) == (108, 192, 12)
    assert {int(settings["hidden"]) % int(settings["heads"]) for settings in draws(space)} == {0}
    with pytest.raises(UserError, match=r"hidden=100\.\.105.*none of these is a multiple of heads 12"):
        narrow(fix="heads=12", ranges="hidden=100..105")


def test_batches_to_choose_from_are_around_those_of_the_recipe() -> None:
    stages, space = RECIPES["tiny"](), narrow()
    assert for_texts(space, stages, np.full(50, 16))["batch_tokens"].choices == (512, 1024, 2048)
    own = for_texts(space, stages, np.full(50, 62))["batch_tokens"]
    assert own.choices == (1024, 2048, 4096) and own.default == 2048
    for tokens, texts in zip(own.choices, (16, 32, 64), strict=True):
        *_, last = changed(stages, ChangeOptions(batch_tokens=int(tokens)))
        assert filled(last, mean_padded(np.full(50, 62))).batch_size == texts
    assert for_texts(narrow(fix="batch_tokens=512"), stages, np.full(50, 62))["batch_tokens"].fixed == 512
    published = student_space("tiny", TEACHER, kind="classification", recipe="tinybert", start=None)
    assert for_texts(published, RECIPES["tinybert"](), np.full(50, 62)) == published


def test_what_makes_trials_dearer_is_off_unless_it_is_asked_for() -> None:
    space = narrow()
    assert fixed_chain(space) == {"trim": "off", "prune": 0.0, "runtime": "torch"}
    assert all(space[name].idle for name in ("trim", "prune", "runtime"))
    assert not compression(draws(space, 1)[0]).anything
    asked = narrow(fix="trim=on", ranges="runtime=torch|int8,prune=0..0.4")
    assert asked["prune"].choices == (0.0, 0.25) and asked["runtime"].choices == ("torch", "int8")
    assert fixed_chain(asked) == {"trim": "on"}
    found = {(chain.prune, chain.int8) for chain in map(compression, draws(asked))}
    assert found == {(None, False), (None, True), (0.25, False), (0.25, True)}
    assert compression({"runtime": "onnx"}).exported and not compression({"runtime": "onnx"}).int8


def test_fix_goes_before_range_and_both_before_a_file(tmp_path: Path) -> None:
    path = tmp_path / "space.toml"
    path.write_text('layers = [2, 3]\nbudget = [0.5, 1.0]\ntemperature = 4\nlayer_map = "top"\n', encoding="utf-8")
    space = narrow("layers=2", "temperature=1..2,layers=2..5", path)
    assert space["layers"].fixed == 2 and space["layer_map"].fixed == "top"
    assert (space["temperature"].low, space["temperature"].high) == (1.0, 2.0)
    assert space["budget"].choices == (0.5, 1.0)
    as_json = tmp_path / "space.json"
    as_json.write_text(json.dumps({"layers": [2, 3]}), encoding="utf-8")
    settings = draws(narrowed(space_of(), "", "", as_json))
    assert {entry["layers"] for entry in settings} == {2, 3}


def test_the_first_trial_is_the_preset_with_what_is_fixed_unless_a_range_leaves_it_out() -> None:
    assert defaults(narrow(ranges="layers=1..3")) is None
    preset = {"layers": 4, "hidden": 312, "ffn": 1200, "temperature": 1.0}
    for fixed in ({"temperature": 2.0, "layers": 2}, {"runtime": "int8"}, {"layers": 4}):
        space = narrow(fix=",".join(f"{name}={value}" for name, value in fixed.items()))
        study = optuna.create_study()
        study.enqueue_trial(defaults(space) or {})
        settings = drawn(space, study.ask())
        expected = {**preset, **fixed}
        assert {name: settings[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("fix", "ranges", "message"),
    [
        ("layres=3", "", "did you mean 'layers'"),
        ("layers", "", "expected NAME=VALUE"),
        ("layers=2,layers=3", "", "names layers twice"),
        ("layers=2.5", "", r"--fix layers=2\.5: expected 1\.\.6"),
        ("layers=-1", "", "expected a number above 0"),
        ("heads=0", "", "heads=0: expected 1 or more"),
        ("temperature=nan", "", r"expected 1\.\.8, log"),
        ("layer_map=middle", "", r"expected of uniform \| top \| bottom"),
        ("runtime=fp16", "", r"expected of torch \| onnx \| int8"),
        ("", "layers=5..2", "expected a number above 0, or two"),
        (
            "",
            "layers=2|4",
            r"--range layers=2\|4: layers is a range of numbers: give its two ends as in 2\.\.4, or --fix",
        ),
        ("", "temperature=1|2|4", "temperature is a range of numbers"),
        ("", "layers=2..3|5", "layers is a range of numbers"),
        ("", "layers=2..3..4", "expected a number above 0, or two"),
        ("", "layers=2..", r"expected 1\.\.6"),
        ("", "prune=0.6..0.9", "none of 0.0 | 0.25 | 0.5 is in there"),
        ("", "layer_map=top..uniform", r"expected of uniform \| top \| bottom"),
    ],
)
def test_what_cannot_be_is_refused_with_the_option(fix: str, ranges: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        narrow(fix, ranges)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layers = [", "cannot be read"),
        ("layers = []", "layers: no value is left"),
        ("layers = 2.5", r"expected 1\.\.6"),
        ("layers = true", r"expected 1\.\.6"),
        ("layers = {low = 1}", r"expected 1\.\.6"),
        ("depth = 3", "part of the space"),
        ("trim = true", r"expected off \| on"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "space.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message) as found:
        narrow(file=path)
    assert str(path) in str(found.value)


def test_a_file_that_is_missing_or_no_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        narrow(file=tmp_path / "none.toml")
    (tmp_path / "list.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(UserError, match="expected names with values"):
        narrow(file=tmp_path / "list.json")


@pytest.mark.parametrize(("settings", "message"), [({"prune": 1.5}, "--prune 1.5"), ({"budget": 0.0}, "--budget 0.0")])
def test_values_that_no_run_takes_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        run_config(StudyConfig(), settings)


@pytest.mark.parametrize(
    ("fix", "message"),
    [
        ("layers=9", "^layers=9: .*choose layers=1 to 6, or --start random"),
        ("batch_tokens=0", "^batch_tokens=0: expected"),
    ],
)
def test_values_out_of_the_space_are_said_without_options_that_a_study_has_not(
    fix: str, message: str, tmp_path: Path
) -> None:
    TEACHER.save_pretrained(tmp_path)
    config = StudyConfig(student="tiny", teacher=str(tmp_path), searching=SearchOptions(fix=fix))
    with pytest.raises(UserError, match=message):
        searched_students(config, toy_task().data)


def test_a_run_of_a_trial_ships_as_the_trial_did() -> None:
    settings = draws(narrow(fix="runtime=int8,trim=on,prune=0.25"), 1)[0]
    made = run_config(StudyConfig(), settings).compress
    assert (made.int8, made.trim_vocabulary, made.prune) == (True, True, 0.25) and made == compression(settings)


def test_albert_is_not_pruned() -> None:
    with pytest.raises(UserError, match="share their weights and cannot be pruned"):
        run_config(StudyConfig(student="albert"), {"prune": 0.5})


def test_class_weights_are_refused_only_where_no_trial_learns_from_labels(tmp_path: Path) -> None:
    TEACHER.save_pretrained(tmp_path)

    def searched(fix: str) -> Space:
        options = SearchOptions(fix=fix)
        config = StudyConfig(student="distil", teacher=str(tmp_path), class_weights="balanced", searching=options)
        return searched_students(config, toy_task().data)

    assert 0.0 in searched("layers=3")["weight_hard"].choices
    with pytest.raises(UserError, match="--class-weights balanced: no stage learns from labels"):
        searched("weight_hard=0")
