"""The one training loop: pretraining, fine-tuning and distilling all pass through `train`.

The order of data, the learning rate and every random draw are functions of the seed and the step, and a checkpoint
holds weights, optimizer moments and generator state; so a run killed at any moment and resumed ends with the same
weights, bit for bit, as one that was left alone (same machine, same number of threads).
"""

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs
from torch import nn

from common.heap import keep_freed_memory
from common.progress import Progress
from teacher.batches import Batches
from teacher.checkpoint import Checkpoints, LoopState
from teacher.dropout import keyed_dropout
from teacher.history import History, Listen, Row
from teacher.loop_config import LoopConfig, resolve_precision
from teacher.objective import Objective
from teacher.ranks import from_main, ranks
from teacher.step import Stepper, refuse_non_finite


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a stage came to."""

    steps: int
    epochs: float
    seconds: float
    """Of training, over all sittings, evaluation included."""
    selected_step: int | None
    """The step whose weights were kept; None where the last were."""
    selected_value: float | None
    history: list[Row] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """All but the history, which has a file of its own."""
        return {name: value for name, value in dataclasses.asdict(self).items() if name != "history"}


SELECTION = "selection metric"

Evaluate = Callable[[], float | Mapping[str, float]]
"""The selection metric of the model as it is now, higher better; a mapping has it as SELECTION beside other figures."""


def parameter_groups(
    module: nn.Module, weight_decay: float, shares: Mapping[nn.Parameter, float] | None = None
) -> list[dict[str, object]]:
    """AdamW groups: matrices decay, LayerNorm weights and biases (vectors) do not.

    Each has the "share" of the rate that its parameters get, by `shares`; 1 where there is none.
    """
    by_share: dict[float, list[nn.Parameter]] = {}
    for parameter in module.parameters():
        if parameter.requires_grad:
            by_share.setdefault((shares or {}).get(parameter, 1.0), []).append(parameter)
    groups: list[dict[str, object]] = []
    for share, entries in by_share.items():
        matrices, vectors = (
            [entry for entry in entries if entry.ndim > 1],
            [entry for entry in entries if entry.ndim <= 1],
        )
        groups.append({"params": matrices, "weight_decay": weight_decay, "share": share})
        groups.append({"params": vectors, "weight_decay": 0.0, "share": share})
    return groups


def train(
    objective: Objective,
    batches: Batches,
    config: LoopConfig,
    folder: Path,
    *,
    label: str,
    evaluate: Evaluate | None = None,
    keep_best: bool = True,
    listen: Listen | None = None,
) -> Outcome:
    """Train `objective` in place; `folder` receives history and checkpoints, and is gone on with where it has some.

    With `evaluate`, the weights of the best evaluation are the ones kept at the end; without `keep_best` they only lie
    in `folder`, and the last ones are kept. Of several processes each gets the same weights and outcome; the first one
    writes, evaluates, and tells `listen` every row of the history.

    Raises:
        UserError: the first loss term that is not finite, or gradients that are not, by name and step.
    """
    total = config.total(batches.steps_per_epoch)
    main = ranks().is_main_process
    precision = resolve_precision(config.precision)
    home = next(objective.parameters()).device
    accelerator, prepared, optimizer = _prepared(objective, config)
    objective.follow(accelerator.device)
    checkpoints = Checkpoints(folder, objective, optimizer)
    state = checkpoints.restore() or LoopState()
    history = History(folder / "history.jsonl", upto=state.step, every=max(1, total // 100), writes=main, listen=listen)
    history.sums, history.count = dict(state.pending), state.pending_count
    if state.step == 0:
        torch.manual_seed(config.seed)
    started = time.monotonic() - state.seconds
    prepared.train()
    stepper = Stepper(
        accelerator,
        prepared,
        objective.weights,
        objective.shares,
        objective.counts,
        batches,
        precision=precision,
        seed=config.seed,
        label=label,
        tables=objective.tables(),
    )
    with keyed_dropout(objective), closing(stepper), Progress(label, total=total, done=state.step) as bar:
        for step, planned in _steps(batches, config, state, total):
            objective.at(step, total)
            rate = config.rate(step, total)
            for group in optimizer.param_groups:
                group["lr"] = rate * group["share"]
            terms = stepper.step(planned, step)
            norm = _finite(_clip(accelerator, objective, config.clip), label, step)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            state.step = step + 1
            history.add(state.step, {**terms, "gradient norm": norm, "learning rate": rate})
            bar.advance(note=f"loss {terms['loss']:.4f}")
            if evaluate is not None and _evaluation_due(state.step, total, batches, config):
                _select(objective, evaluate, state, history, checkpoints)
            state.seconds = time.monotonic() - started
            if state.stopped(config.patience):
                break
            if main and state.step % config.checkpoint_every == 0 and state.step < total:
                checkpoints.save(state, history)
    history.flush(state.step)
    if state.best_step is not None and keep_best:
        accelerator.wait_for_everyone()
        checkpoints.load_best(state.best_step)
    optimizer.zero_grad(set_to_none=True)
    objective.to(home).follow(home)
    return Outcome(
        steps=state.step,
        epochs=state.step * config.accumulation / batches.steps_per_epoch,
        seconds=time.monotonic() - started,
        selected_step=state.best_step,
        selected_value=state.best_value,
        history=from_main(history.rows),
    )


def _prepared(objective: Objective, config: LoopConfig) -> tuple[Accelerator, nn.Module, Any]:
    """The accelerator, and the objective and its optimizer on its device."""
    keep_freed_memory()
    # Heads and poolers that a loss does not look at get no gradient.
    unused = DistributedDataParallelKwargs(find_unused_parameters=not objective.complete)
    accelerator = Accelerator(gradient_accumulation_steps=config.accumulation, kwargs_handlers=[unused])
    optimizer = torch.optim.AdamW(
        parameter_groups(objective, config.weight_decay, objective.rate_shares()),
        lr=config.learning_rate,
        betas=config.betas,
        eps=config.epsilon,
        fused=True,
    )
    return (accelerator, *accelerator.prepare(objective, optimizer))


def _clip(accelerator: Accelerator, objective: Objective, limit: float) -> float:
    """The global norm of the gradients, which are scaled down to `limit` where it is greater."""
    if accelerator.device.type != "cpu":
        return float(accelerator.clip_grad_norm_(objective.parameters(), limit))
    learning = [parameter for parameter in objective.parameters() if parameter.grad is not None]
    norm = nn.utils.get_total_norm([parameter.grad for parameter in learning if parameter.grad is not None])
    # Scaling by 1 would pass over all gradients for nothing.
    if norm > limit:
        nn.utils.clip_grads_with_norm_(learning, limit, norm)
    return float(norm)


def _finite(norm: float, label: str, step: int) -> float:
    """The norm, where it is finite. A finite loss may have gradients that are not: no weight learns from them, and no
    checkpoint has such weights.
    """
    refuse_non_finite({"gradient norm": norm}, label, step, what="value")
    return norm


def _steps(
    batches: Batches, config: LoopConfig, state: LoopState, total: int
) -> Iterator[tuple[int, list[np.ndarray]]]:
    """Every optimizer step from the state's on, with its batches; the position follows from the step number alone."""
    drawn = batches.from_batch(state.step * config.accumulation)
    for step in range(state.step, total):
        yield step, list(itertools.islice(drawn, config.accumulation))


def _evaluation_due(step: int, total: int, batches: Batches, config: LoopConfig) -> bool:
    every = config.evaluate_every or max(1, batches.steps_per_epoch // (config.accumulation * config.evaluations))
    if config.most_evaluations is not None:
        every = max(every, math.ceil(total / config.most_evaluations))
    return step % every == 0 or step == total


def _select(
    objective: Objective, evaluate: Evaluate, state: LoopState, history: History, checkpoints: Checkpoints
) -> None:
    """Evaluate; keep the weights where the metric is the best so far."""
    objective.eval()
    found = from_main(evaluate)
    objective.train()
    figures = dict(found) if isinstance(found, Mapping) else {SELECTION: found}
    value = figures[SELECTION]
    history.note(state.step, figures)
    if state.best_value is None or value > state.best_value:
        state.best_value, state.best_step, state.worse = value, state.step, 0
        if history.writes:
            checkpoints.save_best(state.step)
    else:
        state.worse += 1
