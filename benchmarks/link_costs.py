"""What a message costs Flower's SuperLink: its processor seconds in loopback federations that differ in rounds."""

import importlib.util
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

import understudy as us
from benchmarks import PARCELS

SITES, MEGABYTES = 4, 10
FEW, MANY = 1, 3  # rounds


Course = list[tuple[float, float]]  # seconds by the clock, processor seconds so far


@dataclass(frozen=True)
class LinkCosts:
    """Processor seconds of the SuperLink, but for ``phase``."""

    waiting: float  # for each site and second in which nothing but its polling happens
    message: float  # a request and its reply, without that polling
    megabyte: float  # of either
    phase: float  # by the clock: one exchange with all sites, empty messages


def measured_link() -> LinkCosts | None:
    """None: Flower is not installed."""
    if importlib.util.find_spec("flwr") is None:
        return None
    with tempfile.TemporaryDirectory() as name:
        few, _ = _federation(Path(name) / "few", FEW, 0)
        many, seconds = _federation(Path(name) / "many", MANY, 0)
        heavy, _ = _federation(Path(name) / "heavy", MANY, MEGABYTES)
    idle = idle_rate(many)
    busy = [course[-1][1] - idle * (course[-1][0] - course[0][0]) for course in (few, many, heavy)]
    message = max(0.0, busy[1] - busy[0]) / (SITES * (MANY - FEW))
    megabyte = max(0.0, busy[2] - busy[1]) / (SITES * MANY * 2 * MEGABYTES)
    return LinkCosts(idle / SITES, message, megabyte, seconds)


def idle_rate(course: Course, window: float = 4.0) -> float:
    """Processor seconds per second in the quietest stretch that lasts at least ``window``."""
    rates = []
    for at, (clock, used) in enumerate(course):
        later = next(((c, u) for c, u in course[at:] if c - clock >= window), None)
        if later is not None:
            rates.append((later[1] - used) / (later[0] - clock))
    return min(rates, default=0.0)


def _federation(folder: Path, rounds: int, megabytes: int) -> tuple[Course, float]:
    """The SuperLink's processor seconds as they grew, and seconds per round by the clock."""
    words = {
        "data": {"name": "digits", "clients": SITES, "split": "iid", "limit": 50 * SITES},
        "model": {"name": "softmax"},
        "method": {"name": PARCELS, "rounds": rounds, "megabytes": megabytes},
        "engine": {"name": "flower", "timeout": 600},
    }
    with _course_of("flower-superlink") as course:
        result = us.run(words, out=folder)
    assert result.metrics[-1]["failures"] == []
    return [one for one in course if one[1] > 0], float(result.metrics[-1]["seconds"])


def _used(process: psutil.Process, program: str) -> float:
    try:
        if not any(program in word for word in process.cmdline()):
            return 0.0
        times = process.cpu_times()
        return float(times.user + times.system)
    except psutil.Error:
        return 0.0


@contextmanager
def _course_of(program: str) -> Iterator[Course]:
    """Grows while the program runs."""
    course: Course = []
    ending = threading.Event()

    def watch() -> None:
        while not ending.wait(0.3):
            children = psutil.Process().children(recursive=True)
            course.append((time.monotonic(), sum(_used(process, program) for process in children)))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield course
    finally:
        ending.set()
        thread.join()


if __name__ == "__main__":
    began = time.monotonic()
    print(measured_link(), f"{time.monotonic() - began:.0f} s")
