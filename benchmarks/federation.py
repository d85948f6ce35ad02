"""A round on a loopback federation of ten sites against worker processes; messages of 1, 30 and 150 MB; memory."""

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

import understudy as us
from benchmarks import PARCELS
from benchmarks.report import Row

SITES, ROUNDS = 10, 4
MEGABYTES = (1, 30, 150)
CARRIERS = 2  # sites that large messages go to and come from


def rows() -> list[Row]:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        seconds = {engine: _seconds_a_round(Path(folder) / engine, engine) for engine in ("workers", "flower")}
        print(f"  {SITES} sites, a round of FedAvg: " + ", ".join(f"{name} {s:.2f} s" for name, s in seconds.items()))
        found.append(
            Row(f"a round with {SITES} sites: flower / workers", "s", seconds["flower"], seconds["workers"], None)
        )
        empty = None
        for size in (0, *MEGABYTES):
            one, held = _parcel(Path(folder) / f"parcel-{size}", size)
            empty = empty or one
            print(f"  {size} MB to and from {CARRIERS} sites: {one:.1f} s a phase; {held}")
            if size:
                found.append(Row(f"{size} MB each way, {CARRIERS} sites / an empty phase", "s", one, empty, None))
    return found


def _words(engine: str, sites: int, method: dict[str, object], rounds: int) -> dict[str, object]:
    return {
        "data": {"name": "digits", "clients": sites, "split": "iid", "limit": 50 * sites},
        "model": {"name": "small-convnet"},
        "method": {"rounds": rounds, **method},
        "engine": {"name": engine, "workers": 2, "timeout": 600},
    }


def _seconds_a_round(folder: Path, engine: str) -> float:
    """The first round brings start-up with it, so it does not count."""
    method: dict[str, object] = {"name": "fedavg", "local": {"steps": 5, "batch": 16, "lr": 0.1}}
    result = us.run(_words(engine, SITES, method, ROUNDS), out=folder)
    later = [line["seconds"] for line in result.metrics if line["round"] > 1]
    return float(sum(later) / len(later))


def _parcel(folder: Path, megabytes: int) -> tuple[float, str]:
    method: dict[str, object] = {"name": PARCELS, "megabytes": megabytes}
    with _memory() as peak:
        result = us.run(_words("flower", CARRIERS, method, 2), out=folder)
    held = ", ".join(f"{name} held {bytes / 1e6:.0f} MB" for name, bytes in sorted(peak.items()))
    return float(result.metrics[-1]["seconds"]), held


@dataclass
class _Peak:
    of: dict[str, int] = field(default_factory=dict)

    def look(self) -> None:
        us_here = psutil.Process()
        for process in [us_here, *us_here.children(recursive=True)]:
            try:
                name = "the server" if process == us_here else _role(process.cmdline())
                if name is not None:
                    self.of[name] = max(self.of.get(name, 0), process.memory_info().rss)
            except psutil.Error:
                continue


def _role(words: list[str]) -> str | None:
    told = {"flower-superlink": "the SuperLink", "flower-supernode": "a SuperNode", "--at-door": "a site"}
    return next((role for mark, role in told.items() if any(mark in word for word in words)), None)


@contextmanager
def _memory() -> Iterator[dict[str, int]]:
    peak, ending = _Peak(), threading.Event()

    def watch() -> None:
        while not ending.wait(0.3):
            peak.look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak.of
    finally:
        ending.set()
        thread.join()


if __name__ == "__main__":
    began = time.monotonic()
    rows()
    print(f"{time.monotonic() - began:.0f} s")
