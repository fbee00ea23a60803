"""Several processes on one run, as torchrun and accelerate launch start them: the first one writes, the others wait."""

import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, reduce

from common.errors import UserError
from common.progress import silence

Value = TypeVar("Value")

WAIT = timedelta(days=1)
"""How long the others wait for what the first does alone, such as tokenising a corpus."""


def ranks() -> PartialState:
    """The processes of this run; the first call connects them and silences all but the first.

    Raises:
        UserError: several processes were started, but their device cannot be driven by several.
    """
    wanted = int(os.environ.get("WORLD_SIZE", "1"))
    state = PartialState(cpu=wanted > 1 and not torch.accelerator.is_available(), timeout=WAIT)
    if state.num_processes != wanted:
        raise UserError(
            f"WORLD_SIZE is {wanted}, but {state.num_processes} process works on the device {state.device}: several "
            "are supported on CPUs and CUDA devices. Start one process"
        )
    if not state.is_main_process:
        silence()
    return state


def refuse_several(command: str) -> None:
    """Raise UserError where several processes were started for a command that runs in one.

    Looks at the environment alone, so that it can come before anything is connected.
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count > 1:
        raise UserError(
            f"{command} was started in {count} processes (WORLD_SIZE), and runs in one: start it without torchrun or "
            "accelerate launch. teacher.pretrain and teacher.finetune run in several"
        )


def from_main(function: Callable[[], Value]) -> Value:
    """What `function` returns in the first process, in all of them; so with a UserError that it raises."""
    state = ranks()
    if state.num_processes == 1:
        return function()
    answer: list = [None, None]
    if state.is_main_process:
        try:
            answer = [function(), None]
        except UserError as error:
            answer = [None, str(error)]
    value, problem = broadcast_object_list(answer)
    if problem is not None:
        raise UserError(problem)
    return value


def main_first(function: Callable[[], Value]) -> Value:
    """`function` in the first process, and then in the others, which find what it wrote."""
    kept: list[Value] = []
    from_main(lambda: kept.append(function()))
    return kept[0] if kept else function()


def summed(values: Mapping[str, float]) -> dict[str, float]:
    """The sum of each value over all processes; every process gives the same names in the same order."""
    device = ranks().device
    tensor = torch.tensor(list(values.values()), dtype=torch.float64, device=device)
    return dict(zip(values, reduce(tensor, "sum").tolist(), strict=True))
