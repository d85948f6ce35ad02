"""What a message costs Flower's SuperLink: its processor seconds over two loopback federations that differ in rounds."""

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
from benchmarks.parcels import METHOD

SITES, MEGABYTES = 4, 10
FEW, MANY = 1, 3  # rounds


@dataclass(frozen=True)
class LinkCosts:
    message: float  # processor seconds of the SuperLink: a request and its reply, with the polling meanwhile
    megabyte: float  # the same, for each megabyte of either
    phase: float  # seconds by the clock: one exchange with all sites, empty messages


def measured_link() -> LinkCosts | None:
    """None: Flower is not installed."""
    if importlib.util.find_spec("flwr") is None:
        return None
    with tempfile.TemporaryDirectory() as name:
        few, _ = _federation(Path(name) / "few", FEW, 0)
        many, seconds = _federation(Path(name) / "many", MANY, 0)
        heavy, _ = _federation(Path(name) / "heavy", MANY, MEGABYTES)
    empty = max(0.0, many - few) / (SITES * (MANY - FEW))
    return LinkCosts(empty, max(0.0, heavy - many) / (SITES * MANY * 2 * MEGABYTES), seconds)


def _federation(folder: Path, rounds: int, megabytes: int) -> tuple[float, float]:
    """Processor seconds of the SuperLink, and seconds per round by the clock."""
    words = {
        "data": {"name": "digits", "clients": SITES, "split": "iid", "limit": 50 * SITES},
        "model": {"name": "softmax"},
        "method": {"name": METHOD, "rounds": rounds, "megabytes": megabytes},
        "engine": {"name": "flower", "timeout": 600},
    }
    with _processor_seconds_of("flower-superlink") as used:
        result = us.run(words, out=folder)
    assert result.metrics[-1]["failures"] == []
    return max(used, default=0.0), float(result.metrics[-1]["seconds"])


@contextmanager
def _processor_seconds_of(program: str) -> Iterator[list[float]]:
    """Grows while the program runs; its last number is that of its end."""
    seen: list[float] = []
    ending = threading.Event()

    def watch() -> None:
        while not ending.wait(0.3):
            seen.append(sum(_used(process) for process in psutil.Process().children(recursive=True)))

    def _used(process: psutil.Process) -> float:
        try:
            if not any(program in word for word in process.cmdline()):
                return 0.0
            times = process.cpu_times()
            return float(times.user + times.system)
        except psutil.Error:
            return 0.0

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        ending.set()
        thread.join()


if __name__ == "__main__":
    began = time.monotonic()
    print(measured_link(), f"{time.monotonic() - began:.0f} s")
