"""A process that works for another one ends with it."""

import contextlib
import ctypes
import os
import signal


def end_with_parent(parent: int) -> None:
    """Said by the child itself; where the kernel offers it, it is killed when ``parent`` ends, however that ends."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended already
        os._exit(1)
