"""What processes do that were forked from one with all libraries imported: be `python -m COMMAND`, or tell of it."""

import os
import runpy
import sys
from multiprocessing.connection import Connection
from pathlib import Path


def as_command(arguments: list[str], log: Path) -> None:
    """Run the module that comes first with the other arguments, in a session of its own, all output in `log`."""
    os.setsid()
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(file, stream.fileno())
    sys.argv = list(arguments)
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)


def tell_parent(to: Connection) -> None:
    """Send the id of the process that this one was forked from."""
    to.send(os.getppid())
