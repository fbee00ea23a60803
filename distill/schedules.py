"""Numbers that change over a stage: weights of losses and temperatures."""

import math
from dataclasses import dataclass
from typing import Literal

from common.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """From `start` at a stage's first step to `end` at its last."""

    start: float
    end: float
    shape: Literal["linear", "cosine"] = "linear"
    """A straight line, or half a cosine wave: flat at both ends."""

    def __post_init__(self) -> None:
        if self.shape not in ("linear", "cosine"):
            raise UserError(f"schedule {self.shape!r}: expected 'linear' or 'cosine'")

    def __str__(self) -> str:
        return f"{self.start:g} to {self.end:g}, {self.shape}"

    def at(self, progress: float) -> float:
        """The value at a share of the stage, 0 at its first step and 1 at its last.

        >>> Schedule(start=1.0, end=0.0, shape="cosine").at(0.5)
        0.5
        """
        share = progress if self.shape == "linear" else (1 - math.cos(math.pi * progress)) / 2
        return self.start + (self.end - self.start) * share


Number = float | Schedule
"""Constant or scheduled."""


def value_at(number: Number, progress: float) -> float:
    """The number at a share of the stage."""
    return number.at(progress) if isinstance(number, Schedule) else number


def in_words(number: Number) -> str:
    """ "2", or "8 to 1, linear"."""
    return str(number) if isinstance(number, Schedule) else f"{number:g}"


def ends(number: Number) -> tuple[float, float]:
    """First and last value; all others lie between them."""
    return (number.start, number.end) if isinstance(number, Schedule) else (number, number)


def progress_of(step: int, total: int) -> float:
    """The share of a stage at a step counted from 0: 0 at the first of `total`, 1 at the last.

    >>> progress_of(0, 5), progress_of(4, 5), progress_of(0, 1)
    (0.0, 1.0, 0.0)
    """
    return step / max(1, total - 1)
