"""How far the long loops on this machine are, for somebody who waits: tasks note their steps, and whoever shows a run's
progress reads them.

Notes lie in memory that worker processes share with the run that forked them, one place per process. They change no
result, and nobody waits for them.
"""

import mmap
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

PLACES = 64  # processes whose notes are seen; place 0 is the run's own
WHAT = ("training", "moving records", "training a generator")
_NOTE = struct.Struct("=HII")  # which of WHAT, steps done, of so many
_board = mmap.mmap(-1, PLACES * _NOTE.size)
_place = 0
T = TypeVar("T")


@dataclass(frozen=True)
class Loop:
    what: str
    done: int
    steps: int

    def __str__(self) -> str:
        return f"{self.what}, step {self.done:,} of {self.steps:,}"


def take_place(place: int) -> None:
    """A worker's own place, from its beginning."""
    global _place
    _place = place
    clear(place)


def counted(what: str, loop: Iterable[T], steps: int) -> Iterator[T]:
    """``loop`` itself, noted step by step; also if it is left early, nothing is going on afterwards."""
    try:
        for done, one in enumerate(loop):
            note(what, done, steps)
            yield one
    finally:
        clear()


def note(what: str, done: int, steps: int) -> None:
    if _place < PLACES:
        _NOTE.pack_into(_board, _place * _NOTE.size, WHAT.index(what), done, steps)


def clear(place: int | None = None) -> None:
    """Nothing is going on there any more; by default in this process."""
    at = _place if place is None else place
    if at < PLACES:
        _NOTE.pack_into(_board, at * _NOTE.size, 0, 0, 0)


def loops() -> list[Loop]:
    """Those that are in the middle, in every process."""
    found = (_NOTE.unpack_from(_board, place * _NOTE.size) for place in range(PLACES))
    return [Loop(WHAT[what], done, steps) for what, done, steps in found if done < steps and what < len(WHAT)]
