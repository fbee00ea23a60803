"""What a process that was forked from one with all libraries imported does to be `python -m COMMAND`."""

import os
import runpy
import sys
from pathlib import Path


def as_command(arguments: list[str], log: Path) -> None:
    """Run the module that comes first with the other arguments, in a session of its own, all output in `log`."""
    os.setsid()
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(file, stream.fileno())
    sys.argv = list(arguments)
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
