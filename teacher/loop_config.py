"""How long and how fast a stage trains."""

import math
from dataclasses import dataclass

import torch

from common.errors import UserError
from common.hardware import bf16_pays


@dataclass(frozen=True, kw_only=True)
class LoopConfig:
    """How long and how fast one stage trains."""

    learning_rate: float
    """Peak of the schedule."""
    epochs: float = 3.0
    """Passes over the data; ignored where `steps` is given."""
    steps: int | None = None
    """Optimizer steps instead of epochs."""
    accumulation: int = 1
    """Batches an optimizer step."""
    warmup: float = 0.1
    """Share of the steps in which the rate rises linearly from 0."""
    schedule: str = "linear"
    """After warm-up: "linear" falls to 0, "constant" stays."""
    weight_decay: float = 0.01
    """Decoupled; not on LayerNorm weights and biases."""
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-6
    clip: float = 1.0
    """Global gradient norm."""
    precision: str = "auto"
    """ "fp32", "bf16", or "auto": bf16 where the processor multiplies it natively (slower elsewhere)."""
    evaluations: int = 1
    """Evaluations an epoch."""
    evaluate_every: int | None = None
    """Optimizer steps between evaluations instead; there is one at the end in any case."""
    most_evaluations: int | None = None
    """No more evaluations in all than about so many, at equal distances: epochs of few rows would be evaluated for
    longer than they train. None: no limit."""
    patience: int | None = None
    """Stop after so many evaluations without a better metric; None trains to the end."""
    checkpoint_every: int = 200
    """Optimizer steps."""
    seed: int = 0

    def __post_init__(self) -> None:
        problems = []
        if not 0 < self.learning_rate < math.inf:
            problems.append(f"learning rate {self.learning_rate}: expected a number above 0")
        if self.steps is None and not 0 < self.epochs < math.inf:
            problems.append(f"epochs {self.epochs}: expected a number above 0")
        if self.seed < 0:
            problems.append(f"seed {self.seed}: expected 0 or more")
        if self.steps is not None and self.steps < 1:
            problems.append(f"steps {self.steps}: expected at least 1")
        if not 0 <= self.warmup < 1:
            problems.append(f"warm-up {self.warmup}: expected a share from 0 to below 1")
        if self.schedule not in ("linear", "constant"):
            problems.append(f"schedule {self.schedule!r}: expected 'linear' or 'constant'")
        if self.precision not in ("auto", "fp32", "bf16"):
            problems.append(f"precision {self.precision!r}: expected 'auto', 'fp32' or 'bf16'")
        every = 1 if self.evaluate_every is None else self.evaluate_every
        if min(self.accumulation, self.checkpoint_every, self.evaluations, every) < 1:
            problems.append("accumulation, checkpoint interval and evaluations: expected at least 1")
        if problems:
            raise UserError("; ".join(problems))

    def total(self, steps_per_epoch: int) -> int:
        """Optimizer steps of the stage, for so many batches an epoch."""
        return self.steps or math.ceil(self.epochs * steps_per_epoch / self.accumulation)

    def rate(self, step: int, total: int) -> float:
        """Learning rate of optimizer step `step` (from 0) of `total`."""
        warm = max(1, round(self.warmup * total)) if self.warmup > 0 else 0
        if step < warm:
            return self.learning_rate * (step + 1) / warm
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * (total - step) / max(1, total - warm)


def resolve_precision(precision: str) -> str:
    """ "auto" to what this machine does fastest; "bf16" is refused where it would be slower than fp32."""
    fast = torch.cuda.is_available() or bf16_pays()
    if precision == "bf16" and not fast:
        raise UserError(
            "--precision bf16: this processor emulates bf16 and would be slower than fp32. Use --precision auto"
        )
    return ("bf16" if fast else "fp32") if precision == "auto" else precision
