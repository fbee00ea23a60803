"""Latency of what a trial ships as, while other work slows the machine."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import optuna
import pytest
from transformers import PreTrainedModel

from common.artifact import CardText, load, save
from distill import study_costs
from distill.compress_chain import Artifact
from distill.study_costs import costs_of, share_yardstick, yardstick
from students.presets import student_preset
from students.pruned_shape import shape_of


@pytest.fixture
def bench(tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer) -> SimpleNamespace:
    """The parts of a Bench that costs are measured with; its teacher has 4 layers, its preset 2."""
    model = tiny_bert(layers=4)
    prepared = SimpleNamespace(task=None, tokenizer=tiny_tokenizer)
    return SimpleNamespace(
        folder=tmp_path / "study",
        latency_length=16,
        teacher=SimpleNamespace(model=model, prepared=prepared),
        student=lambda settings: student_preset("tiny", model.config),
    )


class Machine:
    """Takes a millisecond a layer, times how busy it is."""

    def __init__(self) -> None:
        self.busy = 1.0
        self.timed: list[tuple[str, ...]] = []

    def milliseconds(self, artifacts: Mapping[str, Artifact], task: object, length: int, *, seconds: float) -> dict:
        assert length == 16
        self.timed.append(tuple(artifacts))
        layers = {name: len(shape_of(load(artifact.folder)[0]).heads) for name, artifact in artifacts.items()}
        return {name: self.busy * count for name, count in layers.items()}


def test_a_busy_machine_shows_in_no_latency(
    bench: SimpleNamespace, tmp_path: Path, tiny_bert, tiny_tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine()
    monkeypatch.setattr(study_costs, "milliseconds", machine.milliseconds)
    card = CardText(title="own", description="To be measured.", task="none")
    save(tiny_bert(layers=3), tiny_tokenizer, tmp_path / "own", card=card)
    own = Artifact(folder=tmp_path / "own")
    assert yardstick(bench) == 2.0
    machine.busy = 5.0
    assert costs_of(bench, own)["latency_ms"] == pytest.approx(3.0)
    assert yardstick(bench) == 2.0, "measured once, before the trials"
    assert machine.timed == [("preset",), ("own", "preset")]
    size = (tmp_path / "own" / "model.safetensors").stat().st_size
    assert costs_of(bench, own)["size_mb"] == size / 1e6


def test_another_machine_means_the_same_by_a_millisecond(
    bench: SimpleNamespace, tmp_path: Path, tiny_bert, tiny_tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, study = Machine(), Machine(), optuna.create_study()
    second.busy = 3.0
    card = CardText(title="own", description="To be measured.", task="none")
    save(tiny_bert(layers=3), tiny_tokenizer, tmp_path / "own", card=card)
    for machine in (first, second):
        monkeypatch.setattr(study_costs, "milliseconds", machine.milliseconds)
        bench.folder = tmp_path / str(machine.busy)
        share_yardstick(study, bench.folder)
        assert yardstick(bench) == 2.0
        share_yardstick(study, bench.folder)
        assert costs_of(bench, Artifact(folder=tmp_path / "own"))["latency_ms"] == pytest.approx(3.0)
    assert (first.timed, second.timed) == ([("preset",), ("own", "preset")], [("own", "preset")])
