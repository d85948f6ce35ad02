"""How much memory this machine has, and how to keep what one step frees for the next.

The C library returns large blocks to the system as soon as they are free and fetches them again, page by page, a
moment later. Training steps free and allocate the same activations over and over, so this costs eager networks up to
a third of their speed. No result depends on it.
"""

import ctypes
import functools
import os

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of mallopt(3)


@functools.cache
def keep_freed_memory() -> bool:
    """In this process and those forked from it, from now on; False if the C library has no such setting."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):  # Windows, or another C library
        return False
    wanted = {_MMAP_THRESHOLD: 1 << 30, _TRIM_THRESHOLD: (1 << 31) - 1, _TOP_PAD: 64 << 20}
    done = [mallopt(setting, size) == 1 for setting, size in wanted.items()]
    return all(done)


def memory_of_machine() -> int:
    """In bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
