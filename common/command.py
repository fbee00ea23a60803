"""Command lines from configuration dataclasses."""

import importlib.util
import inspect
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import tyro

from common.errors import UserError
from common.progress import silent

Config = TypeVar("Config")


def run_command(
    function: Callable[[Config], None],
    config: type[Config],
    *,
    arguments: Sequence[str] | None = None,
    examples: str = "",
) -> int:
    """Parse options into `config`, call `function` with it, return the exit code.

    Groups of options are nested dataclasses; their names are not part of the flags. A mistake of the user prints one
    message and gives 2, an interrupt gives 130; anything else is a fault of ours and keeps its traceback.
    """
    spec = (
        importlib.util.find_spec(function.__module__)
        if function.__module__ != "__main__"
        else sys.modules["__main__"].__spec__
    )
    program = f"python -m {spec.name}" if spec is not None else None
    shown = examples.strip("\n")
    description = inspect.cleandoc(config.__doc__ or "") + (f"\n\nExamples:\n{shown}" if shown else "")
    # A shell that starts a command in the background has it ignore Ctrl-C; and a polite kill should end it as cleanly.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        try:
            options = tyro.cli(
                config, prog=program, description=description, args=arguments, config=(tyro.conf.OmitArgPrefixes,)
            )
        except BrokenPipeError:
            # Help that is read by `head` or a pager that was left.
            stop_writing()
            return 0
        function(options)
    except UserError as error:
        if not silent():
            print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        more = " and --resume" if hasattr(config, "resume") else ""
        print(f"stopped. What was finished is kept, checkpoints too: the same command{more} goes on.", file=sys.stderr)
        return 130
    return 0


def stop_writing() -> None:
    """Standard output goes nowhere from now on: nobody reads it any more.

    Python writes what is left when it ends, which would fail again and say so.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
