"""Tells a waiting user what a command is doing, once it has been silent for a while."""

import sys
import threading
import time

FIRST, NEXT = 1.5, 15.0  # seconds of silence before a message, and before repeating it

_said_something = threading.Event()
_at = "Working"


def begin() -> None:
    """Starts watching this process, until ``over``."""
    _said_something.clear()
    threading.Thread(target=_watch, args=(time.monotonic(),), name="patience", daemon=True).start()


def doing(what: str) -> None:
    """Notes what is going on, such as `Dealing records out to 100 clients`."""
    global _at
    _at = what


def over() -> None:
    """From now on the command prints its own output."""
    _said_something.set()


def _watch(began: float) -> None:
    told, when = "", began
    while not _said_something.wait(FIRST):
        now = time.monotonic()
        if _at != told or now - when >= NEXT:
            print(f"{_at} … ({now - began:.0f} s)", file=sys.stderr, flush=True)
            told, when = _at, now
