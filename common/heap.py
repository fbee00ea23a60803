"""Memory that is freed stays with the process, for work that asks for the same megabytes again and again."""

import ctypes
import functools
import platform

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD, ARENAS = -1, -2, -3, -8
"""Parameters of glibc's mallopt (malloc.h)."""

_SETTINGS = {
    TRIM_THRESHOLD: 2**31 - 1,
    TOP_PAD: 64 * 2**20,
    # The greatest that glibc takes.
    MMAP_THRESHOLD: 32 * 2**20,
    # One: each further arena would keep memory of its own, and gives all of it back when it is empty for a moment.
    ARENAS: 1,
}


@functools.cache
def keep_freed_memory() -> bool:
    """Tell glibc to keep what is freed, for the rest of the process; False where there is no glibc.

    A training step allocates and frees hundreds of megabytes. By default they go back to the system in between, which
    hands them out again page by page and filled with zeros.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    library = ctypes.CDLL(None)
    taken = [library.mallopt(name, value) for name, value in _SETTINGS.items()]
    return all(taken)
