"""Ends a process together with the one it works for."""

import contextlib
import ctypes
import os
import signal
from multiprocessing.process import BaseProcess

ENDING = (signal.SIGINT, signal.SIGTERM)


def end_with_parent(parent: int) -> None:
    """Called in the child; if the kernel supports it, the child is killed when ``parent`` ends, for whatever reason."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:  # it has already ended
        os._exit(1)


def start_deaf(process: BaseProcess) -> None:
    """Starts a forked process that hears Ctrl-C and SIGTERM only once it unblocks ``ENDING``. A signal that reached it
    before it has handlers of its own would be lost, or answered by ours: it would go on as a copy of this process, and
    we would wait for its end forever."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
