"""Tells a waiting user what a command is doing, once it has been silent for a while."""

import sys
import threading
import time
from collections.abc import Callable

FIRST, NEXT = 1.0, 15.0  # seconds of silence before a message, and before repeating it

_said_something = threading.Event()
_at = "Working"
_so_far = ""


def begin(says: Callable[[str], None] | None = None) -> None:
    """Starts watching this process, until ``over``; by default it speaks on stderr."""
    _said_something.clear()
    speaks = says or _print
    threading.Thread(target=_watch, args=(time.monotonic(), speaks), name="patience", daemon=True).start()


def doing(what: str, so_far: str = "") -> None:
    """Notes what is going on, such as `Dealing records out to 100 clients`; ``so_far``, how much of it is done, is only
    shown when the message is due anyway."""
    global _at, _so_far
    _at, _so_far = what, so_far


def over() -> None:
    """From now on the command prints its own output."""
    _said_something.set()


def _print(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _watch(began: float, says: Callable[[str], None]) -> None:
    told, when = "", began
    while not _said_something.wait(FIRST):
        now = time.monotonic()
        if _at != told or now - when >= NEXT:
            what, so_far = _at, f"{_so_far}, " if _so_far else ""
            says(f"{what} … ({so_far}{now - began:.0f} s)")
            told, when = what, now
