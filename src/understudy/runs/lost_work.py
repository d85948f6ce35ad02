"""What went into rounds that began but never counted: stopped, killed, or waiting for a person.

Such a round is asked again when the run is resumed, so metrics have no line for it; but its bytes went over the wire
and its seconds passed. ``under-way.json`` in the run's folder has them, and does not exist if nothing was lost.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from understudy.federation.round_record import RoundRecord
from understudy.files import write_whole

FILE = "under-way.json"
PULSE = 1.0  # seconds between writes while replies come in, so that a kill loses no more than that


@dataclass(frozen=True)
class Spent:
    seconds: float = 0.0
    bytes_up: int = 0
    bytes_down: int = 0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.seconds + other.seconds, self.bytes_up + other.bytes_up, self.bytes_down + other.bytes_down)


def lost(folder: Path, counted: int) -> Spent:
    """By a run whose rounds count up to round ``counted``."""
    try:
        words: dict[str, Any] = json.loads((folder / FILE).read_text())
        before, now = Spent(**words["lost"]), Spent(**words["now"])
        return before + now if words["round"] > counted else before
    except (OSError, ValueError, KeyError, TypeError):
        return Spent()  # it only supplements the metrics


class UnderWay:
    """A run's current round, kept on disk until it counts."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._lost = Spent()
        self._round, self._record = -1, RoundRecord()
        self._began = self._written = time.perf_counter()

    def go_on(self, counted: int) -> None:
        self._lost = lost(self._folder, counted)

    @property
    def seconds(self) -> float:
        return round(time.perf_counter() - self._began, 3)

    @contextmanager
    def of_round(self, number: int, record: RoundRecord) -> Iterator[None]:
        """It counts unless an exception of any kind leaves this block."""
        self._round, self._record = number, record
        self._began = self._written = time.perf_counter()
        try:
            yield
        except BaseException:  # a kill by Ctrl-C too: written down, then raised again
            self._write()
            raise
        self._round, self._record = -1, RoundRecord()
        if self._lost == Spent():
            (self._folder / FILE).unlink(missing_ok=True)
        else:
            self._write()

    def beat(self) -> None:
        """Called whenever a reply comes in."""
        if self._round >= 0 and time.perf_counter() - self._written >= PULSE:
            self._write()

    def _write(self) -> None:
        up, down = sum(self._record.up.values()), sum(self._record.down.values())
        now = Spent(self.seconds, up, down) if self._round >= 0 else Spent()
        words = {"round": self._round, "lost": asdict(self._lost), "now": asdict(now)}
        write_whole(self._folder / FILE, json.dumps(words).encode(), durable=False)
        self._written = time.perf_counter()
