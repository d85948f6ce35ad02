"""A process that works for another one ends with it."""

import contextlib
import ctypes
import signal


def end_with_parent() -> None:
    """Said by the child itself; where the kernel offers it, it is killed when its parent ends, however that ends."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
