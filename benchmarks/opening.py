"""Fedssyn's opening: the generators of four clients, in one process and spread over two workers.

Whole runs of no rounds, with the start of the workers and everything on disk. As many updates for each client, so that
both workers have the same to do.
"""

import itertools
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.report import Row
from benchmarks.timing import Turn, take_turns
from understudy.config.resolve import resolve
from understudy.runs.play import play

CLIENTS, STEPS, TURNS = 4, 60, 4
CONFIG: dict[str, Any] = {
    "data": {"name": "digits", "clients": CLIENTS, "limit": 400, "split": {"kind": "iid"}},
    "model": {"name": "softmax"},
    "method": {"name": "fedavg", "rounds": 0},
    "with": [
        {
            "name": "fedssyn",
            "images": 10,
            "sound_only": False,
            "generator": {"name": "diffusion", "epochs": 1, "least_steps": STEPS},
        }
    ],
}


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        numbers = itertools.count()

        def opening(**engine: Any) -> None:
            play(resolve(CONFIG, {"engine": engine}), Path(folder) / str(next(numbers)))

        turns = {
            "one process": Turn(lambda: opening(name="inline"), CLIENTS),
            "two workers": Turn(lambda: opening(name="workers", workers=2), CLIENTS),
        }
        take_turns(turns, 1)
        paces = take_turns(turns, TURNS)
    for name, pace in paces.items():
        print(f"  opening, {name}: {pace.a_second:.2f} generators/s, quartiles {pace.spread:.0%} apart")
    two, one = paces["two workers"].a_second, paces["one process"].a_second
    return [Row("Generators of four clients: two workers / one process", "generators/s", two, one, None)]
