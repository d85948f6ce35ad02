"""A word for the person who waits: what a command is at, once it has been silent for a while."""

import sys
import threading
import time

FIRST, NEXT = 1.5, 15.0  # seconds of silence before a word, and before the same word again

_said_something = threading.Event()
_at = "Working"


def begin() -> None:
    """Watches this process from now on, until ``over``."""
    _said_something.clear()
    threading.Thread(target=_watch, args=(time.monotonic(),), name="patience", daemon=True).start()


def doing(what: str) -> None:
    """What is going on, such as `Dealing records out to 100 clients`."""
    global _at
    _at = what


def over() -> None:
    """From here on the command speaks for itself."""
    _said_something.set()


def _watch(began: float) -> None:
    told, when = "", began
    while not _said_something.wait(FIRST):
        now = time.monotonic()
        if _at != told or now - when >= NEXT:
            print(f"{_at} … ({now - began:.0f} s)", file=sys.stderr, flush=True)
            told, when = _at, now
