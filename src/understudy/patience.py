"""Tells a waiting user what a command is doing, once it has been silent for a while."""

import sys
import threading
import time

FIRST, NEXT = 1.5, 15.0  # seconds of silence before a message, and before repeating it

_said_something = threading.Event()
_at = "Working"
_so_far = ""


def begin() -> None:
    """Starts watching this process, until ``over``."""
    _said_something.clear()
    threading.Thread(target=_watch, args=(time.monotonic(),), name="patience", daemon=True).start()


def doing(what: str, so_far: str = "") -> None:
    """Notes what is going on, such as `Dealing records out to 100 clients`; ``so_far``, how much of it is done, is only
    shown when the message is due anyway."""
    global _at, _so_far
    _at, _so_far = what, so_far


def over() -> None:
    """From now on the command prints its own output."""
    _said_something.set()


def _watch(began: float) -> None:
    told, when = "", began
    while not _said_something.wait(FIRST):
        now = time.monotonic()
        if _at != told or now - when >= NEXT:
            what, so_far = _at, f"{_so_far}, " if _so_far else ""
            print(f"{what} … ({so_far}{now - began:.0f} s)", file=sys.stderr, flush=True)
            told, when = what, now
