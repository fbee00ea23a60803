"""The course of a pretraining: phases of length, shapes, recomputed activations, collapse, curves, what is kept."""

import importlib.util
import json
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, BertModel

from common.errors import UserError
from teacher.attention import use_training_attention
from teacher.batches import Batches
from teacher.collapse import CollapseWatch
from teacher.course import steps_in
from teacher.dropout import drawing, keyed_dropout
from teacher.history import read_rows
from teacher.loop import train
from teacher.loop_config import LoopConfig
from teacher.masked_language import MlmNsp
from teacher.objective import Objective
from teacher.phases import by_pieces, in_phases
from teacher.pretrain import pretrain
from teacher.pretrain_config import PretrainConfig, bert_config
from teacher.pretrain_options import ScheduleOptions, ShapeOptions
from teacher.recompute import recompute_activations
from teacher.scalars import Scalars


def _counted(count: int, length: int, batch_size: int, seed: int = 0) -> Batches:
    """Examples that are their own number, with `length` 1000s to tell two sets apart."""

    def collate(indices: Any, number: int) -> dict[str, Tensor]:
        return {"x": 1000.0 * length + torch.as_tensor(np.asarray(indices), dtype=torch.float32)}

    return Batches(
        lengths=np.random.default_rng(length).integers(1, length + 1, count),
        batch_size=batch_size,
        seed=seed,
        collate=collate,
    )


@pytest.mark.parametrize("start", [0, 3, 6, 7, 8, 12])
def test_a_run_in_phases_goes_on_at_any_batch_with_the_same_examples(start: int) -> None:
    first, second = _counted(9, 8, 2), by_pieces(_counted(20, 64, 2), 64)
    phases = in_phases(first, second, 7)
    run = list(islice(phases.from_batch(0), 15))
    served = [phases.collate(batch.tolist(), 0)["x"].tolist() for batch in run]
    expected = [first.collate(batch, 0)["x"].tolist() for batch in islice(first.from_batch(0), 7)]
    expected += [second.collate(batch, 0)["x"].tolist() for batch in islice(second.from_batch(0), 8)]
    assert served == expected
    rest = list(islice(phases.from_batch(start), 15 - start))
    assert all(np.array_equal(one, two) for one, two in zip(run[start:], rest, strict=True))
    sizes = [int(phases.lengths[batch].max()) * len(batch) for batch in run[7:]]
    assert max(sizes) <= 2 * 64 and all(phases.lengths[batch].max() <= 8 for batch in run[:7])


class Noisy(Objective):
    """Learns a mean, with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.dropout = nn.Parameter(torch.zeros(1)), nn.Dropout(0.5)
        self.weights = {"square": 1.0}
        self.stop: int | None = None

    def at(self, step: int, total: int) -> None:
        if step == self.stop:
            raise KeyboardInterrupt

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"square": (self.dropout(batch["x"]) / 1000 - self.mean).square().mean()}


@pytest.mark.parametrize("stop", [2, 9, 10, 11, 17])
def test_a_run_killed_in_either_phase_ends_with_the_same_weights(tmp_path: Path, stop: int) -> None:
    config = LoopConfig(learning_rate=0.1, steps=18, checkpoint_every=2, precision="fp32", evaluate_every=5)
    batches = in_phases(_counted(9, 8, 2), _counted(20, 64, 3), 10)
    whole, killed, again = Noisy(), Noisy(), Noisy()

    def run(objective: Noisy, folder: str) -> Any:
        return train(
            objective,
            batches,
            config,
            tmp_path / folder,
            label="x",
            evaluate=lambda: {"selection metric": -float(objective.mean.detach()), "held-out mean": 1.0},
            keep_best=False,
        )

    outcome = run(whole, "whole")
    killed.stop = stop
    with pytest.raises(KeyboardInterrupt):
        run(killed, "cut")
    resumed = run(again, "cut")
    assert torch.equal(whole.mean, again.mean)
    assert [row.values for row in resumed.history] == [row.values for row in outcome.history]
    # The mean grows, so the first evaluation is the best one, and the last weights are kept all the same.
    assert outcome.selected_step == resumed.selected_step == 5 and outcome.steps == 18
    (best,) = (tmp_path / "cut").glob("best-*")
    assert not torch.equal(load_file(best / "weights.safetensors")["mean"], again.mean)
    noted = [row.step for row in outcome.history if "held-out mean" in row.values]
    assert noted == [5, 10, 15, 18]


@pytest.fixture
def masked_batch() -> dict[str, Tensor]:
    ids = torch.randint(5, 60, (4, 12))
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "token_type_ids": torch.zeros_like(ids),
        "positions": torch.tensor([1, 15, 40]),
        "labels": torch.tensor([7, 8, 9]),
        "next_labels": torch.tensor([0, 1, 0, 1]),
    }


def _passed(batch: dict[str, Tensor], *, recompute: bool) -> tuple[dict[str, Tensor], list[Tensor], int]:
    """Losses, gradients, and numbers kept for the way back."""
    config = PretrainConfig(dropout=0.2, shape=ShapeOptions(layers=3, hidden=32, heads=4))
    objective = MlmNsp.fresh(bert_config(config, 60), 0, generator_width=1.0).train()
    use_training_attention(objective.model)
    if recompute:
        recompute_activations(objective.model)
    kept = 0

    def keep(tensor: Tensor) -> Tensor:
        nonlocal kept
        kept += tensor.numel()
        return tensor

    with keyed_dropout(objective):
        with drawing(3, 1), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            terms = objective(batch)
        # As in the loop, the way back is outside of the block that keys dropout.
        sum(terms.values()).backward()
    return terms, [parameter.grad for parameter in objective.parameters()], kept


def test_recomputed_activations_give_the_same_gradients_and_keep_less(masked_batch: dict[str, Tensor]) -> None:
    kept, again = _passed(masked_batch, recompute=False), _passed(masked_batch, recompute=True)
    assert all(torch.equal(kept[0][name], again[0][name]) for name in kept[0])
    assert all(torch.equal(one, two) for one, two in zip(kept[1], again[1], strict=True))
    assert again[2] < 0.5 * kept[2]


def test_a_shape_is_what_was_asked_for_and_a_size_what_it_was() -> None:
    given = ShapeOptions(layers=3, hidden=96, heads=6, ffn=200)
    config = bert_config(PretrainConfig(shape=given), 500)
    with torch.device("meta"):
        model = BertModel(config)
    embeddings = (500 + 512 + 2 + 2) * 96
    layer = 4 * (96 * 96 + 96) + 2 * 96 * 200 + 200 + 96 + 4 * 96
    assert sum(parameter.numel() for parameter in model.parameters()) == embeddings + 3 * layer + 96 * 96 + 96
    assert model.config.num_attention_heads == 6
    base = bert_config(PretrainConfig(size="small", shape=ShapeOptions(layers=2)), 500)
    assert (base.num_hidden_layers, base.hidden_size, base.num_attention_heads, base.intermediate_size) == (
        *(2, 512, 8),
        2048,
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": ShapeOptions(hidden=100)}, "--hidden 100: no multiple of 64"),
        ({"shape": ShapeOptions(heads=7)}, "--heads 7: does not divide the width 256"),
        ({"shape": ShapeOptions(layers=0)}, "--layers 0: expected 1 or more"),
        ({"schedule": ScheduleOptions(long_length=64)}, "--long-length 64: expected more than --length 64"),
        ({"schedule": ScheduleOptions(long_length=513)}, "up to 512"),
        ({"schedule": ScheduleOptions(long_share=1.0)}, "--long-share 1.0"),
        ({"schedule": ScheduleOptions(long_share=0.5)}, "--long-share is about the second phase"),
        ({"schedule": ScheduleOptions(evaluate_every=0)}, "--evaluate-every 0"),
        ({"schedule": ScheduleOptions(warmup=1.0)}, "--warmup 1.0"),
    ],
)
def test_impossible_options_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        PretrainConfig(**changes)


def test_settings_name_only_what_was_asked_for() -> None:
    plain = PretrainConfig().settings()
    assert plain["learning_rate"] == 1e-3
    assert not {"start", "shape", "schedule", "long_share", "layers", "from"} & set(plain)
    quiet = ScheduleOptions(activation_checkpointing=True, tensorboard=Path("x"))
    assert PretrainConfig(schedule=quiet).settings() == plain
    other = PretrainConfig(schedule=ScheduleOptions(long_length=128), shape=ShapeOptions(layers=3))
    assert other.settings() == plain | {"long_length": 128, "layers": 3}


def _told(losses: list[float], capsys: pytest.CaptureFixture[str], warm: int = 10) -> str:
    watch = CollapseWatch("pretrain mini", unigram=6.0, warm=warm, rate=3e-3)
    for step, loss in enumerate(losses, start=1):
        watch(step, {"mlm": loss})
    return capsys.readouterr().out


def test_a_collapse_is_named_once_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    said = _told([8.0] * 10 + [6.02] * 60, capsys)
    assert said.count("warning: pretrain mini: collapsed to piece frequencies: at step 30 ") == 1
    assert all(word in said for word in ("6.02", "6.00", "--learning-rate (now 0.003", "--warmup", "--accumulation"))
    # It had learned something, and lost it again.
    assert "at step 30 " in _told([5.0] * 20 + [6.1] * 40, capsys)


def test_learning_is_not_called_a_collapse(capsys: pytest.CaptureFixture[str]) -> None:
    falling = [9.0 - 0.05 * step for step in range(100)]
    assert _told(falling, capsys) == ""
    assert _told([6.5 - 0.01 * step for step in range(100)], capsys) == ""
    assert _told([6.0] * 29, capsys) == ""
    watch = CollapseWatch("x", unigram=6.0, warm=0, rate=1.0)
    for step in range(100):
        watch(step, {"selection metric": -6.0})
    assert capsys.readouterr().out == ""


@pytest.fixture
def text(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    words = ["red", "green", "blue", "house", "tree", "runs", "sees", "takes"]
    documents = [" ".join(" ".join(rng.choice(words, size=7)) + "." for _ in range(6)) for _ in range(40)]
    (tmp_path / "words.txt").write_text("\n\n".join(documents), encoding="utf-8")
    return tmp_path / "words.txt"


def _config(text: Path, schedule: ScheduleOptions, **changes: Any) -> PretrainConfig:
    small = {"vocabulary": 100, "length": 16, "batch_size": 8, "steps": 6, "precision": "fp32", "objective": "mlm+nsp"}
    shape = ShapeOptions(layers=1, hidden=32, heads=2)
    return PretrainConfig(corpus=str(text), shape=shape, schedule=schedule, **small | changes)


class FakeWriter:
    """Stands in for torch.utils.tensorboard.SummaryWriter."""

    said: list[tuple[str, float, int]]

    def __init__(self, folder: str) -> None:
        self.folder, self.closed = folder, False
        FakeWriter.said, FakeWriter.last = [], self

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.said.append((name, value, step))

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def test_minutes_hold_the_evaluations_too() -> None:
    batches = Batches(lengths=np.ones(64), batch_size=8, seed=0, collate=lambda *_: {"x": torch.ones(8)})
    asked: dict[str, Any] = {"minutes": 0.05, "precision": "fp32"}
    found = {
        every: steps_in(
            PretrainConfig(**asked, schedule=ScheduleOptions(evaluate_every=every)),
            Noisy(),
            lambda _: batches,
            lambda: time.sleep(0.5) or {},
        )
        for every in (None, 1, 2)
    }
    # 3 s have room for six evaluations of half a second, and for as many steps as lie between them.
    assert found[1] <= 6 and found[2] <= 12 < found[None]


def test_a_run_in_phases_writes_curves_and_the_best_weights_beside_the_last(
    tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("teacher.scalars.writer_class", lambda: FakeWriter)
    monkeypatch.setattr("teacher.pretrain.writer_class", lambda: FakeWriter)
    # So high a rate that the first evaluation is the best.
    schedule = ScheduleOptions(
        long_length=32, long_share=0.5, evaluate_every=1, tensorboard=tmp_path / "curves", warmup=0.0
    )
    folder = pretrain(_config(text, schedule, learning_rate=0.5), tmp_path / "model")
    rows = read_rows(folder / "history.jsonl")
    evaluations = [row for row in rows if "held-out mlm loss" in row.values]
    assert [row.step for row in evaluations] == [1, 2, 3, 4, 5, 6]
    assert {"held-out mlm accuracy", "held-out nsp accuracy", "held-out nsp loss"} <= set(evaluations[0].values)
    summary = json.loads((folder / "pretraining.json").read_text(encoding="utf-8"))
    losses = [-row.values["selection metric"] for row in evaluations]
    best = int(np.argmin(losses)) + 1
    assert summary["best_step"] == best < 6
    assert summary["best_loss"] == pytest.approx(min(losses))
    assert summary["settings"] | {"long_length": 32, "long_share": 0.5} == summary["settings"]
    last, earlier = load_file(folder / "model.safetensors"), load_file(folder / "best" / "model.safetensors")
    assert any(not torch.equal(last[name], earlier[name]) for name in last)
    assert AutoModelForMaskedLM.from_pretrained(folder / "best").config.hidden_dropout_prob == 0.1
    writer = FakeWriter.last
    assert writer.closed and writer.folder == str(tmp_path / "curves")
    assert {(name, step) for name, _, step in writer.said} == {(n, row.step) for row in rows for n in row.values}


def test_without_tensorboard_that_is_said_before_anything_is_done(tmp_path: Path) -> None:
    if importlib.util.find_spec("tensorboard") is not None:
        pytest.skip("tensorboard is installed here")
    config = PretrainConfig(corpus="nowhere", schedule=ScheduleOptions(tensorboard=tmp_path / "curves"))
    with pytest.raises(UserError, match=r"--tensorboard needs the package tensorboard.*distillery\[tensorboard\]"):
        pretrain(config, tmp_path / "model")
    with pytest.raises(UserError, match="needs the package"):
        Scalars(tmp_path / "curves")


def test_a_rate_far_too_high_is_seen_while_it_trains(
    tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pretrain(_config(text, ScheduleOptions(), steps=60, learning_rate=0.3), tmp_path / "model")
    said = capsys.readouterr().out
    assert "collapsed to piece frequencies" in said and "lower --learning-rate (now 0.3" in said


class Counted(Objective):
    """A mean over a number of entries that differs from example to example."""

    def __init__(self, counted: bool) -> None:
        super().__init__()
        self.slope, self.weights, self.counted = nn.Parameter(torch.ones(1)), {"mean": 1.0}, counted

    def counts(self, batch: dict[str, Tensor]) -> dict[str, int]:
        return {"mean": len(batch["x"])} if self.counted else {}

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"mean": (self.slope * batch["x"]).mean()}


@pytest.fixture
def threads() -> Iterator[Any]:
    yield torch.set_num_threads
    torch.set_num_threads(1)


def test_lanes_weigh_a_term_by_what_is_counted_in_them(tmp_path: Path, threads: Any) -> None:
    values = [torch.arange(1.0, 2 + index % 5) * index for index in range(20)]
    batches = Batches(
        lengths=np.ones(20, dtype=np.int64),
        batch_size=20,
        seed=0,
        collate=lambda indices, _: {"x": torch.cat([values[index] for index in indices])},
    )
    config = LoopConfig(learning_rate=0.1, steps=3, precision="fp32")
    ends = {}
    for lanes, counted in ((1, True), (2, True), (2, False)):
        threads(lanes)
        objective = Counted(counted)
        outcome = train(objective, batches, config, tmp_path / f"{lanes}{counted}", label="x")
        ends[lanes, counted] = [row.values["mean"] for row in outcome.history]
    assert ends[2, True] == pytest.approx(ends[1, True], rel=1e-6)
    assert ends[2, False] != pytest.approx(ends[1, True], rel=1e-3)
