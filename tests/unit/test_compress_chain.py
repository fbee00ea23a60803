"""Chains as data: order, resuming, damaged leftovers, and pruning to each kind of target."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from toy import toy_task
from transformers import PreTrainedModel

from common.artifact import CardText, load, save
from common.errors import UserError
from distill.compress import _own_folder, short_name
from distill.compress_chain import Artifact, Step, run_chain
from distill.compress_options import CompressOptions
from distill.compress_prune import Pruning
from distill.compress_steps import STEPS, Work, steps_for
from distill.recovery import Training, recovery_stage
from students.pruned_shape import shape_of
from teacher.ready import claim
from teacher.tasks.base import Task

LABELS = {"id2label": {0: "a", 1: "b", 2: "c"}, "label2id": {"a": 0, "b": 1, "c": 2}}


def writing(name: str, log: list[str]) -> Step:
    """A step that appends its name to a file of the artifact before."""

    def apply(before: Artifact, folder: Path) -> Artifact:
        log.append(name)
        target = folder / "made"
        target.mkdir(parents=True)
        (target / "text").write_text((before.folder / "text").read_text() + name)
        return Artifact(folder=target, notes=(f"after {name}",))

    return Step(name=name, title=name.upper(), apply=apply)


def start(tmp_path: Path) -> Artifact:
    (tmp_path / "text").write_text("")
    return Artifact(folder=tmp_path)


def test_steps_build_on_one_another_and_finished_ones_are_kept(tmp_path: Path) -> None:
    log: list[str] = []
    first, second = writing("a", log), writing("b", log)
    made = run_chain(start(tmp_path), [first], tmp_path / "chain")
    assert [step.title for step in made] == ["A"]
    made = run_chain(start(tmp_path), [first, second], tmp_path / "chain")
    assert log == ["a", "b"]
    assert (made[-1].artifact.folder / "text").read_text() == "ab"
    assert made[0].artifact.notes == ("after a",)
    again = run_chain(start(tmp_path), [first, second], tmp_path / "chain")
    assert log == ["a", "b"]
    assert again == made


def test_a_step_that_fails_leaves_those_before_it(tmp_path: Path) -> None:
    log: list[str] = []

    def fail(before: Artifact, folder: Path) -> Artifact:
        raise UserError("no")

    broken = Step(name="b", title="B", apply=fail)
    with pytest.raises(UserError, match="no"):
        run_chain(start(tmp_path), [writing("a", log), broken], tmp_path / "chain")
    run_chain(start(tmp_path), [writing("a", log), writing("b", log)], tmp_path / "chain")
    assert log == ["a", "b"]


def test_a_damaged_marker_is_named(tmp_path: Path) -> None:
    log: list[str] = []
    run_chain(start(tmp_path), [writing("a", log)], tmp_path / "chain")
    (tmp_path / "chain" / "1-a" / "step.json").write_text("{")
    with pytest.raises(UserError, match=r"step\.json is damaged"):
        run_chain(start(tmp_path), [writing("a", log)], tmp_path / "chain")


def test_options_make_steps_in_the_order_of_the_table(tmp_path: Path) -> None:
    work = work_of(toy_task())
    assert [step.name for step in steps_for(CompressOptions(prune=0.5, int8=True), work)] == ["prune", "onnx", "int8"]
    assert [step.name for step in steps_for(CompressOptions(onnx=True), work)] == ["onnx"]
    assert not CompressOptions().anything
    with pytest.raises(UserError, match="--embedding-bits 4 is for --int8"):
        CompressOptions(prune=0.5, embedding_bits=4)
    assert [step.name for step in steps_for(CompressOptions(prune=0.5, trim_vocabulary=True), work)] == [
        "trim",
        "prune",
    ]
    assert next(iter(STEPS)) == "trim"
    with pytest.raises(UserError, match=r"--max-drop -1.*"):
        CompressOptions(max_drop=-1)


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        ({"prune_target": "latency"}, "--prune-target latency"),
        ({"prune_parts": "layers"}, "--prune-parts layers"),
        ({"prune_even": True}, "--prune-even"),
        ({"importance": "random"}, "--importance random"),
        ({"prune_steps": 9}, "--prune-steps 9"),
        ({"recovery": False}, "--no-recovery"),
        ({"recovery_epochs": 50.0}, "--recovery-epochs 50.0"),
        ({"recovery_rate": 1e-3}, "--recovery-rate 0.001"),
    ],
)
def test_what_is_for_pruning_alone_is_refused_without_it(options: dict[str, object], flag: str) -> None:
    with pytest.raises(UserError, match=f"^{flag} is for --prune: give that too$"):
        CompressOptions(int8=True, **options)  # type: ignore[arg-type]
    assert CompressOptions(prune=0.5, **options).prune == 0.5  # type: ignore[arg-type]
    if flag.startswith("--recovery"):
        with pytest.raises(UserError, match=f"^{flag} and --no-recovery: give one of them$"):
            CompressOptions(prune=0.5, recovery=False, **options)  # type: ignore[arg-type]


def test_half_of_recovery_is_after_the_last_step() -> None:
    assert CompressOptions(prune=0.5, prune_steps=1).recovery_lengths() == [3.0]
    assert CompressOptions(prune=0.5, prune_steps=3, recovery_epochs=4.0).recovery_lengths() == [1.0, 1.0, 2.0]
    stage = recovery_stage((1, 3, 4), epochs=1.0, learning_rate=1e-4)
    assert stage.layers == "1,3,4"
    assert stage.layered


def test_a_model_is_called_what_its_path_calls_it() -> None:
    assert short_name(Path("runs/reviews-tiny/tiny/seed-0/model")) == "tiny"
    assert short_name(Path("runs/sst2-teacher/model")) == "sst2-teacher"


def test_without_out_other_settings_get_another_folder(tmp_path: Path) -> None:
    base = tmp_path / "small"
    assert _own_folder(base, "1") == base
    claim(base, "1")
    assert _own_folder(base, "1") == base
    assert _own_folder(base, "2") == tmp_path / "small-2"
    claim(tmp_path / "small-2", "2")
    assert _own_folder(base, "2") == tmp_path / "small-2"


def work_of(task: Task) -> Work:
    training = Training(learning_rate=1e-3, precision="fp32", checkpoint_every=50, seed=0)

    def none() -> None:
        raise AssertionError("nobody asked for the teacher")

    return Work(task=task, max_length=32, training=training, answers=none)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["parameters", "flops", "latency"])
def test_every_target_is_reached_by_a_smaller_model(
    tmp_path: Path,
    tiny_bert: Callable[..., PreTrainedModel],
    tiny_tokenizer,
    target: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Milliseconds are made up here, from the shape, so that the test does not depend on them."""
    monkeypatch.setattr("distill.compress_prune._milliseconds", lambda model, shape: sum(shape.ffn) / 512)
    task = toy_task(texts=["good film", "a bad plot", "the actor is funny"])
    save(
        tiny_bert(layers=4, **LABELS),
        tiny_tokenizer,
        tmp_path / "m",
        card=CardText(title="m", description="", task="t"),
    )
    options = CompressOptions(prune=0.4, prune_target=target, prune_steps=2, recovery=False)
    work = work_of(task)
    pruning = Pruning(task=task, options=options, training=work.training, max_length=32, answers=work.answers)
    artifact = pruning(Artifact(folder=tmp_path / "m"), tmp_path / "out")
    before, after = shape_of(load(tmp_path / "m")[0]), shape_of(load(artifact.folder)[0])
    cost = {
        "parameters": lambda shape: shape.encoder_parameters,
        "flops": lambda shape: shape.flops(128),
        "latency": lambda shape: sum(shape.ffn),
    }[target]
    assert 0.5 * cost(before) < cost(after) <= 0.6 * cost(before)
    assert after.hidden == before.hidden
    assert "4 layers of 32" in artifact.notes[0]
    half = shape_of(load(tmp_path / "out" / "prune-1" / "recovered")[0])
    assert cost(after) < cost(half) <= 0.8 * cost(before)


def test_an_interrupted_pruning_goes_on_with_what_it_has(
    tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = toy_task(texts=["good film", "a bad plot", "the actor is funny"])
    save(tiny_bert(**LABELS), tiny_tokenizer, tmp_path / "m", card=CardText(title="m", description="", task="t"))
    options = CompressOptions(prune=0.4, prune_steps=2, recovery=False)
    work = work_of(task)
    pruning = Pruning(task=task, options=options, training=work.training, max_length=32, answers=work.answers)
    whole = pruning(Artifact(folder=tmp_path / "m"), tmp_path / "whole")
    real = Pruning._cut
    calls: list[int] = []

    def cut_once(self: Pruning, *arguments: object) -> object:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Pruning, "_cut", cut_once)
    with pytest.raises(KeyboardInterrupt):
        pruning(Artifact(folder=tmp_path / "m"), tmp_path / "cut")
    resumed = pruning(Artifact(folder=tmp_path / "m"), tmp_path / "cut")
    assert len(calls) == 3
    one, other = (load(artifact.folder)[0].state_dict() for artifact in (whole, resumed))
    assert all(torch.equal(one[name], other[name]) for name in one)
