"""One optimizer step's forward and backward, in as many threads ("lanes") as pay.

At the sizes of this product a second torch thread inside every operation brings a fifth; two halves of a batch, each in
a Python thread whose operations run in one torch thread, bring more, since torch releases the interpreter while it
computes. Gradients meet in the parameters: the sum of two does not depend on which comes first, so two lanes end with
the same bits every time. A third would break that: there are never more lanes, and where several batches make a step,
the sum of the earlier ones is kept aside.

Several processes (torchrun, accelerate launch) share a batch in the same way, a part each in one lane: two processes
take the step that two lanes would take.
"""

import concurrent.futures
import contextlib
import contextvars
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn

from common.errors import UserError
from teacher.batches import Batches
from teacher.dropout import drawing
from teacher.lanes import LANES
from teacher.parts import Part, cut, own_parts
from teacher.ranks import summed
from teacher.shared_casts import cast_once
from teacher.standins import StandIns

Item = TypeVar("Item")
Value = TypeVar("Value")

_lane: contextvars.ContextVar[int] = contextvars.ContextVar("lane", default=0)

SMALLEST = 8
"""Examples that a lane should have: below, a batch is not worth cutting."""


def current_lane() -> int:
    """Which part of a batch this thread is at, from 0: an objective that writes something down does so in one."""
    return _lane.get()


def lanes_for(accelerator: Accelerator, batch_size: int) -> int:
    """How many lanes: two where one process has a CPU with two threads or more and the batch is large enough."""
    alone = accelerator.num_processes == 1 and accelerator.device.type == "cpu"
    return LANES if alone and torch.get_num_threads() >= LANES and batch_size >= LANES * SMALLEST else 1


class Stepper:
    """Runs forward and backward of batches; gradients add up in the parameters.

    Args:
        accelerator: of the loop.
        model: the objective, prepared by the accelerator.
        weights: loss term to its weight.
        shares: of a part's examples and its batch's, the terms whose share is another than that of the examples.
        counts: of a part's tensors, the terms whose share goes by what is counted there.
        batches: where examples come from.
        precision: "fp32" or "bf16".
        seed: of dropout.
        label: of the stage, for messages.
        tables: embeddings of the model that are looked up for input_ids alone.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        model: nn.Module,
        weights: Mapping[str, float],
        shares: Callable[[np.ndarray, np.ndarray], Mapping[str, float]],
        counts: Callable[[dict[str, Tensor]], Mapping[str, int]],
        batches: Batches,
        *,
        precision: str,
        seed: int,
        label: str,
        tables: Sequence[nn.Embedding] = (),
    ) -> None:
        self._accelerator, self._model, self._batches = accelerator, model, batches
        self._weights, self._shares, self._counts = weights, shares, counts
        self._bf16, self._seed, self._label = precision == "bf16", seed, label
        self._processes = accelerator.num_processes
        self._lanes = lanes_for(accelerator, batches.batch_size)
        self._threads = torch.get_num_threads()
        self._pool = concurrent.futures.ThreadPoolExecutor(self._lanes, initializer=self._start_lane)
        self._casts = contextlib.ExitStack()
        if self._bf16 and accelerator.device.type == "cpu":
            self._casts.enter_context(cast_once(model))
        # Several processes meet in the parameters' own gradients.
        alone = self._processes == 1 and accelerator.device.type == "cpu"
        self._stand_ins = StandIns(model, bf16=self._bf16, tables=tables) if alone else None
        covered = set() if self._stand_ins is None else set(self._stand_ins.parameters)
        # What the lanes add gradients to themselves, in an order that is not fixed.
        self._loose = [parameter for parameter in model.parameters() if parameter not in covered]

    def close(self) -> None:
        """End the lanes, and give the caller its model and its threads back."""
        self._pool.shutdown()
        self._casts.close()
        torch.set_num_threads(self._threads)

    def step(self, batches: Sequence[np.ndarray], step: int) -> dict[str, float]:
        """Forward and backward of an optimizer step; the mean of every term and of the weighted total, "loss".

        Raises:
            UserError: the first term that is not finite, by name and step.
        """
        sums: dict[str, float] = {}
        aside: list[Tensor | None] = []
        for position, indices in enumerate(batches):
            if position and self._lanes > 1:
                aside = self._set_aside(aside)
            parts = cut(indices, step * len(batches) + position, self._lanes * self._processes)
            parts = own_parts(parts, self._processes, self._accelerator.process_index)
            # Gradients of several processes meet once a step, with the last batch.
            last = position == len(batches) - 1
            with contextlib.nullcontext() if last else self._accelerator.no_sync(self._model):
                for values in self._run(parts, step):
                    for name, value in values.items():
                        sums[name] = sums.get(name, 0.0) + value / len(batches)
        if aside:
            self._set_aside(aside, back=True)
        if self._processes > 1:
            sums = summed(sums)
            # Here and not in a part: all processes stop at the same step.
            refuse_non_finite(sums, self._label, step)
        return sums

    def _set_aside(self, earlier: list[Tensor | None], *, back: bool = False) -> list[Tensor | None]:
        """Take the gradients out of the parameters that nothing stands in for, and add them to `earlier`.

        `back` puts the sums in again.
        """
        sums = [
            kept if parameter.grad is None else parameter.grad if kept is None else kept.add_(parameter.grad)
            for parameter, kept in zip(self._loose, earlier or [None] * len(self._loose), strict=True)
        ]
        for parameter, gradient in zip(self._loose, sums, strict=True):
            parameter.grad = gradient if back else None
        return sums

    def _run(self, parts: Sequence[Part], step: int) -> Iterable[dict[str, float]]:
        loaded = self._in_lanes(self._load, parts)
        shares = self._term_shares(parts, loaded)
        with contextlib.nullcontext() if self._stand_ins is None else self._stand_ins.placed(loaded):
            return self._in_lanes(lambda entry: self._part(*entry, step), list(zip(parts, loaded, shares, strict=True)))

    def _in_lanes(self, function: Callable[[Item], Value], items: Sequence[Item]) -> list[Value]:
        return [function(items[0])] if len(items) == 1 else list(self._pool.map(function, items))

    def _load(self, part: Part) -> dict[str, Tensor]:
        batch = self._batches.collate(part.indices.tolist(), part.number)
        return {name: tensor.to(self._accelerator.device) for name, tensor in batch.items()}

    def _term_shares(self, parts: Sequence[Part], loaded: Sequence[dict[str, Tensor]]) -> list[dict[str, float]]:
        """For each part the terms whose share is another than that of the examples."""
        # The share 0 is that of a part that another process computes too.
        counts = [
            {name: count if part.share else 0 for name, count in self._counts(batch).items()}
            for part, batch in zip(parts, loaded, strict=True)
        ]
        totals = {name: float(sum(entry[name] for entry in counts)) for name in counts[0]}
        if totals and self._processes > 1:
            totals = summed(totals)
        return [
            {**self._shares(part.indices, part.batch), **{name: entry[name] / max(1, totals[name]) for name in entry}}
            for part, entry in zip(parts, counts, strict=True)
        ]

    def _part(
        self, part: Part, batch: dict[str, Tensor], term_shares: Mapping[str, float], step: int
    ) -> dict[str, float]:
        """What the part adds to the batch's terms and to their weighted sum, "loss"."""
        device = self._accelerator.device
        _lane.set(part.number % self._lanes)
        if self._processes > 1 and device.type != "cpu":
            # Dropout on other devices draws from torch's generator, of which a checkpoint has the first process's.
            torch.manual_seed(int(np.random.SeedSequence((self._seed, part.number)).generate_state(1)[0]))
        with (
            drawing(self._seed, part.number),
            # The cache of cast weights is one for all threads, and the first to finish empties it: how often the others
            # cast a weight anew, and so how its gradients are grouped, would depend on timing.
            torch.autocast(device.type, torch.bfloat16, enabled=self._bf16, cache_enabled=self._lanes == 1),
        ):
            terms = self._model(batch)
        shares = dict.fromkeys(terms, part.share) | (dict(term_shares) if part.share else {})
        weighted = (self._weights[name] * shares[name] * term for name, term in terms.items())
        loss = sum(weighted, start=torch.zeros((), device=device))
        values = {name: float(term.detach()) for name, term in {**terms, "loss": loss}.items()}
        if self._processes == 1:
            refuse_non_finite(values, self._label, step)
        # Gradients of several processes are averaged, and should be added.
        self._accelerator.backward(loss * self._processes if self._processes > 1 else loss)
        return {name: shares.get(name, 1.0) * value for name, value in values.items()}

    def _start_lane(self) -> None:
        torch.set_num_threads(max(1, self._threads // self._lanes))


def refuse_non_finite(values: Mapping[str, float], label: str, step: int, *, what: str = "loss term") -> None:
    """Raise UserError for the first value of a step that is not finite, by name and step."""
    bad = [name for name, value in values.items() if not math.isfinite(value)]
    if bad:
        raise UserError(
            f"{label}: the {what} {bad[0]!r} is {values[bad[0]]} at step {step + 1}. The last checkpoint is kept; "
            "lower the learning rate, use --precision fp32, or look at the examples of that step"
        )
