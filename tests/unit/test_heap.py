"""Memory that is freed and asked for again comes without new pages."""

import platform
import subprocess
import sys

import pytest

from common.heap import keep_freed_memory

_PROGRAM = """
import ctypes, resource, sys
from common.heap import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
library = ctypes.CDLL(None)
library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
library.free.argtypes, library.memset.argtypes = [ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
for turn in range(12):
    blocks = [library.malloc(20_000_000) for _ in range(4)]
    for block in blocks:
        library.memset(block, 1, 20_000_000)
    for block in blocks:
        library.free(block)
    if turn == 1:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _new_pages(argument: str) -> int:
    command = [sys.executable, "-c", _PROGRAM, argument]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries have no such settings")
def test_freed_memory_is_used_again() -> None:
    assert _new_pages("keep") < 1000
    # Ten times 80 MB otherwise, in pages of 4 KiB or, of some systems, 64.
    assert _new_pages("give back") > 5000


def test_without_glibc_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    keep_freed_memory.cache_clear()
    assert keep_freed_memory() is False
    keep_freed_memory.cache_clear()
