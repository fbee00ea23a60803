"""Options of an encoder that is pretrained here, from nothing, because a teacher is wanted and there is none."""

import math
from dataclasses import dataclass
from typing import Any

from common.errors import UserError, unknown_name
from teacher.pretrain_config import DEFAULT_STEPS
from teacher.pretrain_options import SIZES

SIZE = "mini"
"""Where none is given."""


@dataclass(frozen=True, kw_only=True)
class ScratchOptions:
    """A teacher from nothing."""

    scratch_size: str | None = None
    """Of an encoder that is pretrained here (scratch): tiny 2/128, mini 4/256, small 4/512, medium 8/512, base 12/768
    or large 24/1024 (layers/width). None: mini."""
    scratch_steps: int | None = None
    """Steps of its pretraining; 2000 if neither this nor --scratch-minutes is given. Each size and length is pretrained
    once for a text and precision, and kept."""
    scratch_minutes: float | None = None
    """Pretrain it for about so long: a few steps are timed first, and the number of steps follows."""

    def __post_init__(self) -> None:
        problems = []
        if self.scratch_size is not None and self.scratch_size not in SIZES:
            problems.append(str(unknown_name("--scratch-size", self.scratch_size, SIZES)))
        if self.scratch_steps is not None and self.scratch_steps < 1:
            problems.append(f"--scratch-steps {self.scratch_steps}: expected at least 1")
        if self.scratch_minutes is not None and not 0 < self.scratch_minutes < math.inf:
            problems.append(f"--scratch-minutes {self.scratch_minutes}: expected a number above 0")
        if self.scratch_steps is not None and self.scratch_minutes is not None:
            problems.append("--scratch-steps and --scratch-minutes contradict each other: give one of them")
        if problems:
            raise UserError("; ".join(problems))

    @property
    def given(self) -> dict[str, Any]:
        """Flag to value of those that were given; what a key holds of them, so that others keep the key they had."""
        values = ((f"--{name.replace('_', '-')}", value) for name, value in vars(self).items())
        return {flag: value for flag, value in values if value is not None}

    @property
    def size(self) -> str:
        """One of SIZES."""
        return self.scratch_size or SIZE

    @property
    def length(self) -> str:
        """How long it is pretrained, for the name of its folder: "2000", or "30min"."""
        if self.scratch_minutes is not None:
            return f"{self.scratch_minutes:g}min"
        return str(self.scratch_steps or DEFAULT_STEPS)

    def refuse_unless_scratch(self, source: str, option: str) -> None:
        """Raise UserError where they were given, and `source`, the value of `option`, is no encoder from nothing.

        "auto" may still become one.
        """
        if self.given and source not in ("auto", "scratch"):
            raise UserError(
                f"{', '.join(self.given)}: for an encoder that is pretrained here, and {option} is {source}: leave "
                f"out one of them, or give {option} scratch"
            )
