"""The training loop: schedule, groups, selection, resume, and the first bad number."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from common.errors import UserError
from teacher.batches import Batches, bucketed, on_full_rows, rounded_up, token_batch_count, token_batches
from teacher.checkpoint import Checkpoints, LoopState
from teacher.history import History
from teacher.loop import Outcome, parameter_groups, train
from teacher.loop_config import LoopConfig, resolve_precision
from teacher.objective import Objective


class Line(Objective):
    """Least squares with dropout, so that the generator's state matters."""

    def __init__(self, *, bad_step: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.layer, self.norm, self.dropout = nn.Linear(4, 4), nn.LayerNorm(4), nn.Dropout(0.3)
        self.weights = {"square": 1.0, "size": 0.1}
        self.bad_step, self.calls = bad_step, 0

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        self.calls += 1
        out = self.norm(self.layer(self.dropout(batch["x"])))
        square = (out - batch["y"]).square().mean()
        return {"square": square * (float("nan") if self.calls == self.bad_step else 1.0), "size": out.abs().mean()}


def _batches(rows: int = 40) -> Batches:
    x = torch.randn(rows, 4, generator=torch.Generator().manual_seed(3))

    def collate(indices: list[int], step: int) -> dict[str, Tensor]:
        chosen = x[torch.as_tensor(np.asarray(indices))]
        return {"x": chosen, "y": chosen.flip(-1)}

    return Batches(lengths=np.arange(rows) % 7 + 1, batch_size=8, seed=5, collate=collate)


def _config(**changes: object) -> LoopConfig:
    return LoopConfig(
        **{"learning_rate": 1e-2, "epochs": 4, "checkpoint_every": 3, "precision": "fp32", "seed": 1} | changes
    )


def test_epochs_of_few_rows_are_not_all_evaluated(tmp_path: Path) -> None:
    steps: dict[int | None, list[int]] = {}
    for most in (None, 3, 100):
        outcome = train(
            Line(),
            _batches(),
            _config(most_evaluations=most),
            tmp_path / str(most),
            label="t",
            evaluate=lambda: 0.0,
        )
        steps[most] = [row.step for row in outcome.history if "selection metric" in row.values]
    # Four epochs of five steps.
    assert steps[None] == steps[100] == [5, 10, 15, 20]
    assert steps[3] == [7, 14, 20]


def _trained(model: Line, folder: Path) -> Outcome:
    return train(
        model,
        _batches(),
        _config(),
        folder,
        label=folder.name,
        evaluate=lambda: -float(model.layer.weight.detach().norm()),
    )


class KilledError(Exception):
    pass


@pytest.mark.parametrize("kill_at", [1, 4, 7, 13, 19])
def test_a_killed_run_goes_on_to_the_same_weights_bit_for_bit(tmp_path: Path, kill_at: int) -> None:
    whole = Line()
    outcome = _trained(whole, tmp_path / "whole")

    class Killing(Line):
        def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
            if self.calls == kill_at:
                raise KilledError
            return super().forward(batch)

    killed = Killing()
    with pytest.raises(KilledError):
        _trained(killed, tmp_path / "cut")
    torch.manual_seed(99)
    again = Line()
    resumed = _trained(again, tmp_path / "cut")
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), again.parameters(), strict=True))
    assert again.calls < whole.calls or kill_at < 3
    assert [row.values for row in resumed.history] == [row.values for row in outcome.history]
    assert resumed.selected_step == outcome.selected_step


def test_a_checkpoint_of_fewer_devices_is_gone_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_again: list[int] = []
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda _: torch.get_rng_state())
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda _, index: set_again.append(index))
    line = Line()
    checkpoints = Checkpoints(tmp_path, line, torch.optim.AdamW(line.parameters()))
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "device_count", lambda: 1)
        checkpoints.save(LoopState(step=3), History(tmp_path / "history.jsonl", upto=0, every=1))
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "device_count", lambda: 2)
        state = checkpoints.restore()
    assert state is not None and state.step == 3
    assert set_again == [0]


def test_a_damaged_checkpoint_is_named_and_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Killing(Line):
        def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
            if self.calls == 8:
                raise KilledError
            return super().forward(batch)

    with pytest.raises(KilledError):
        train(Killing(), _batches(), _config(), tmp_path, label="cut")
    (newest,) = tmp_path.glob("step-*")
    weights = newest / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:50])
    again, whole = Line(), Line()
    train(again, _batches(), _config(), tmp_path, label="again")
    train(whole, _batches(), _config(), tmp_path / "whole", label="whole")
    assert f"{newest} is damaged" in capsys.readouterr().out
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), again.parameters(), strict=True))


def test_gradients_that_are_not_finite_stop_it_before_a_checkpoint_has_them(tmp_path: Path) -> None:
    class Root(Line):
        def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
            found = super().forward(batch)
            # Its value is 0, its slope infinite times 0.
            root = (0.0 * self.layer.weight).sum().sqrt() if self.calls == 3 else 0.0
            return {**found, "square": found["square"] + root}

    with pytest.raises(UserError, match="the value 'gradient norm' is nan at step 3"):
        train(Root(), _batches(), _config(), tmp_path, label="fit")
    assert not list(tmp_path.glob("step-*"))


def test_the_first_non_finite_term_stops_with_its_name_and_step(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'square' is nan at step 5"):
        train(Line(bad_step=5), _batches(), _config(), tmp_path, label="stage")


def test_steps_match_a_hand_written_adamw(tmp_path: Path) -> None:
    """Decoupled decay (arXiv 1711.05101, algorithm 2), bias correction, clipping, warm-up and linear decay."""
    config = _config(epochs=1, clip=0.05, weight_decay=0.1)
    model, reference = Line(), Line()
    for part in (model, reference):
        part.dropout.p = 0.0
    train(model, _batches(), config, tmp_path, label="x")
    batches, total = _batches(), 5
    plan = batches.plan(0)
    moments = {name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in reference.named_parameters()}
    for step in range(total):
        terms = reference(batches.collate(plan[step], step))
        reference.zero_grad()
        sum(reference.weights[name] * term for name, term in terms.items()).backward()
        norm = torch.sqrt(sum((p.grad**2).sum() for p in reference.parameters()))
        rate = 1e-2 * (step + 1) if step < 1 else 1e-2 * (total - step) / 4
        with torch.no_grad():
            for name, p in reference.named_parameters():
                gradient = p.grad * min(1.0, 0.05 / (float(norm) + 1e-6))
                first, second = moments[name]
                first.mul_(0.9).add_(gradient, alpha=0.1)
                second.mul_(0.999).add_(gradient**2, alpha=0.001)
                if p.ndim > 1:
                    p.mul_(1 - rate * 0.1)
                corrected = first / (1 - 0.9 ** (step + 1)) / (torch.sqrt(second / (1 - 0.999 ** (step + 1))) + 1e-6)
                p.sub_(rate * corrected)
    for (name, own), other in zip(model.named_parameters(), reference.parameters(), strict=True):
        assert torch.allclose(own, other, atol=1e-6), name


def test_accumulating_two_halves_equals_one_whole_batch(tmp_path: Path) -> None:
    def with_batch(size: int) -> Batches:
        base = _batches(16)
        return Batches(lengths=np.ones(16, dtype=np.int64), batch_size=size, seed=5, collate=base.collate)

    whole, halves = Line(), Line()
    for part in (whole, halves):
        part.dropout.p = 0.0
    train(whole, with_batch(16), _config(epochs=1), tmp_path / "a", label="a")
    train(halves, with_batch(8), _config(epochs=1, accumulation=2), tmp_path / "b", label="b")
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(whole.parameters(), halves.parameters(), strict=True))


def test_the_best_weights_are_kept_and_patience_stops(tmp_path: Path) -> None:
    model = Line()
    values = iter([0.1, 0.5, 0.4, 0.3, 0.9])
    seen: list[Tensor] = []

    def evaluate() -> float:
        seen.append(model.layer.weight.detach().clone())
        return next(values)

    outcome = train(model, _batches(), _config(epochs=5, patience=2), tmp_path, label="x", evaluate=evaluate)
    assert (outcome.selected_step, outcome.selected_value, outcome.steps) == (10, 0.5, 20)
    assert torch.equal(model.layer.weight, seen[1])


def test_best_weights_of_steps_that_are_done_again_do_not_count(tmp_path: Path) -> None:
    class Killing(Line):
        def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
            if self.calls == 12:
                raise KilledError
            return super().forward(batch)

    kept: list[Tensor] = []

    def sitting(model: Line, *values: float) -> Outcome:
        """Evaluations after steps 5, 10, 15 and 20, and checkpoints after 8 and 16."""
        scores = iter(values)

        def evaluate() -> float:
            kept.append(model.layer.weight.detach().clone())
            return next(scores)

        return train(model, _batches(), _config(checkpoint_every=8), tmp_path, label="x", evaluate=evaluate)

    with pytest.raises(KilledError):
        sitting(Killing(), 0.5, 0.9)
    assert sorted(path.name for path in tmp_path.glob("best-*")) == ["best-10", "best-5"]
    again = Line()
    # As where it goes on with other threads: what was the best after the checkpoint is not the best any more.
    outcome = sitting(again, 0.3, 0.2, 0.1)
    assert (outcome.selected_step, outcome.selected_value) == (5, 0.5)
    assert torch.equal(again.layer.weight, kept[0])
    assert [path.name for path in tmp_path.glob("best-*")] == ["best-5"]


def test_best_weights_that_are_gone_are_looked_for_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = Line()
    checkpoints = Checkpoints(tmp_path, line, torch.optim.AdamW(line.parameters()))
    history = History(tmp_path / "history.jsonl", upto=0, every=1)
    checkpoints.save(LoopState(step=8, best_value=0.5, best_step=5, worse=1), history)
    state = checkpoints.restore()
    assert state == LoopState(step=8)
    assert "its best weights, of step 5, are gone" in capsys.readouterr().out


def test_decay_spares_norms_and_biases() -> None:
    model = Line()
    decayed, spared = parameter_groups(model, 0.01)
    assert decayed["params"] == [model.layer.weight]
    assert {id(entry) for entry in spared["params"]} == {
        id(p) for p in (model.layer.bias, model.norm.weight, model.norm.bias)
    }
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.01, 0.0)


def test_the_rate_warms_up_and_falls_to_zero() -> None:
    config = _config(learning_rate=1.0, warmup=0.1)
    rates = [config.rate(step, 100) for step in range(101)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[9] == rates[10] == 1.0
    assert rates[55] == pytest.approx(0.5)
    assert rates[100] == 0.0
    assert _config(learning_rate=1.0, schedule="constant").rate(90, 100) == 1.0


def test_every_example_comes_once_an_epoch_in_batches_of_like_length() -> None:
    lengths = np.random.default_rng(0).integers(3, 60, 1000)
    batches = bucketed(lengths, 32, seed=1, epoch=0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(1000))
    padded = sum(len(batch) * lengths[batch].max() for batch in batches)
    assert padded < 1.1 * lengths.sum()
    assert any(not np.array_equal(a, b) for a, b in zip(batches, bucketed(lengths, 32, seed=1, epoch=1), strict=True))


def test_all_bad_settings_are_listed_at_once() -> None:
    with pytest.raises(UserError) as caught:
        _config(learning_rate=0, epochs=-1, schedule="cosine", precision="fp8", warmup=2)
    assert all(word in str(caught.value) for word in ("learning rate", "epochs", "cosine", "fp8", "warm-up"))


def test_bf16_is_refused_where_it_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teacher.loop_config.bf16_pays", lambda: False)
    assert resolve_precision("auto") == "fp32"
    with pytest.raises(UserError, match="slower than fp32"):
        resolve_precision("bf16")
    monkeypatch.setattr("teacher.loop_config.bf16_pays", lambda: True)
    assert resolve_precision("auto") == "bf16"


def test_history_reads_as_if_never_stopped(tmp_path: Path) -> None:
    train(Line(), _batches(), _config(), tmp_path, label="x")
    rows = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, 21))
    assert all(row["loss"] == pytest.approx(row["square"] + 0.1 * row["size"], rel=1e-5) for row in rows)


@pytest.mark.parametrize("rows", [1, 7, 60, 5000])
@pytest.mark.parametrize("tokens", [8, 300, 1024])
def test_batches_by_pieces_hold_every_example_once_and_are_as_many_in_each_epoch(rows: int, tokens: int) -> None:
    lengths = np.random.default_rng(rows).geometric(0.08, rows) + 2
    for epoch in range(3):
        batches = token_batches(lengths, tokens, seed=4, epoch=epoch)
        assert len(batches) == token_batch_count(lengths, tokens)
        assert min(map(len, batches)) > 0
        assert sorted(np.concatenate(batches).tolist()) == list(range(rows))


@given(st.lists(st.integers(1, 200), min_size=1, max_size=40), st.integers(1, 400), st.integers(1, 6))
def test_no_batch_by_pieces_is_empty(lengths: list[int], tokens: int, pool: int) -> None:
    array = np.array(lengths)
    batches = token_batches(array, tokens, seed=0, epoch=0, pool=pool)
    assert len(batches) == token_batch_count(array, tokens, pool=pool)
    assert min(map(len, batches)) > 0
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))


def test_texts_as_long_as_a_whole_batch_are_a_batch_each() -> None:
    batches = token_batches(np.full(50, 128), 128, seed=0, epoch=0)
    assert [len(batch) for batch in batches] == [1] * 50


def test_batches_by_pieces_are_of_like_cost_and_length() -> None:
    lengths = np.random.default_rng(0).geometric(0.08, 20_000) + 2
    batches = token_batches(lengths, 1024, seed=4, epoch=1)
    costs = np.array([len(batch) * rounded_up(lengths[batch]).max() for batch in batches])
    assert np.median(costs) == pytest.approx(1024, rel=0.05)
    # A batch that crosses from one padded length to the next costs up to twice as much; few do.
    assert np.percentile(costs, 90) < 1.2 * 1024
    assert costs.sum() < 1.15 * rounded_up(lengths).sum()
    assert max(map(len, batches)) > 3 * min(map(len, batches))


def test_what_is_not_trained_follows_to_the_device_and_back(tmp_path: Path) -> None:
    seen: list[torch.device] = []

    class Followed(Line):
        def follow(self, device: torch.device) -> None:
            seen.append(device)

    train(Followed(), _batches(), _config(epochs=1), tmp_path, label="x")
    assert seen == [torch.device("cpu")] * 2


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65])
def test_rows_filled_up_change_no_result_and_come_in_few_shapes(count: int) -> None:
    layer, seen = nn.Linear(5, 3), []

    def function(states: Tensor) -> Tensor:
        seen.append(len(states))
        return layer(states)

    states = torch.randn(count, 5, requires_grad=True)
    results = on_full_rows(function, states)
    assert torch.allclose(results, layer(states), atol=1e-6)
    assert seen[0] % 64 == 0
    (gradient,) = torch.autograd.grad(results.sum(), states)
    assert torch.allclose(gradient, layer.weight.sum(0).expand(count, 5))
