"""Very many clients: a run over a million of them beside the same cohort out of ten thousand.

Every client has ten records of 64 bytes; a thousand of them take part in each round of FedAvg. Each run has a process
of its own. Counted are the seconds until round 0 begins (with imports and reading the file), the peak of memory, the
seconds per round, and what the run leaves on disk.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.memory import peak_megabytes
from benchmarks.report import Row
from understudy.files import MEGABYTE
from understudy.runs.folder import Line
from understudy.runs.watching import Observer

CLIENTS, FEW, COHORT, ROUNDS = 1_000_000, 10_000, 1000, 5
RECORDS, SIDE = 10, 8
START, MEMORY, ROUND, GROWTH = 10.0, 1500.0, 1.2, 1.05  # goals: seconds, megabytes, and two ratios


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        found = {clients: _in_a_fresh_process(clients, folder) for clients in (FEW, CLIENTS)}
    print("  | clients | start, s | peak, MB | a round of 1000, s | folder, MB | files |")
    print("  |--:|--:|--:|--:|--:|--:|")
    for clients, one in found.items():
        print(
            f"  | {clients:,} | {one['start']:.1f} | {one['peak']:.0f} | {one['round']:.2f} | {one['folder']:.2f} | "
            f"{one['files']} |"
        )
    few, many = found[FEW], found[CLIENTS]
    return [
        Row("a million clients: seconds to round 0", "s", many["start"], None, START, "at most"),
        Row("a million clients: peak memory", "MB", many["peak"], None, MEMORY, "at most"),
        Row("a round of 1000: of a million / of 10,000", "s", many["round"], few["round"], ROUND, "at most"),
        Row("folder: of a million / of 10,000", "MB", many["folder"], few["folder"], GROWTH, "at most"),
    ]


def _in_a_fresh_process(clients: int, folder: Path) -> dict[str, float]:
    rng = np.random.default_rng(0)
    many = clients * RECORDS
    x = rng.integers(0, 256, (many, 1, SIDE, SIDE), dtype=np.uint8)
    np.savez(folder / f"{clients}.npz", x=x, y=rng.integers(0, 10, many))
    np.savez(folder / "test.npz", x=x[:100], y=rng.integers(0, 10, 100))
    command = [sys.executable, "-m", "benchmarks.population", str(clients), str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    (folder / f"{clients}.npz").unlink()
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


class _Clock(Observer):
    def __init__(self) -> None:
        self.began, self.started = time.monotonic(), 0.0
        self.rounds: list[float] = []

    def begins(self, rounds: int, done: int, clients: int, folder: Path) -> None:
        self.started = time.monotonic() - self.began

    def scored(self, line: Line) -> None:
        if line["round"]:
            self.rounds.append(line["seconds"])


def run_once(clients: int, folder: Path) -> dict[str, Any]:
    clock, out = _Clock(), folder / f"run-{clients}"
    import understudy as us

    data = {"name": f"{folder}/{clients}.npz", "test": f"{folder}/test.npz", "clients": clients, "split": "iid"}
    local = {"epochs": 1, "batch": RECORDS, "lr": 0.1}
    method = {"name": "fedavg", "rounds": ROUNDS, "cohort": COHORT, "local": local}
    words = {"data": {**data, "classes": 10}, "model": {"name": "softmax"}, "method": method}
    us.run({**words, "engine": {"name": "inline"}}, out=out, observer=clock)
    files = [path for path in out.rglob("*") if path.is_file()]
    return {
        "start": clock.started,
        "peak": peak_megabytes(),
        "round": statistics.median(clock.rounds),
        "folder": sum(path.stat().st_size for path in files) / MEGABYTE,
        "files": len(files),
    }


if __name__ == "__main__":
    print(json.dumps(run_once(int(sys.argv[1]), Path(sys.argv[2]))))
