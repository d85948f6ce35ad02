"""Runs told to experiment trackers (`track: [tensorboard, mlflow, wandb]`), through the observer.

Trackers change no result: they draw no random numbers, and one that fails is left out while the run continues.
"""

import importlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from understudy.data.problem import Problem
from understudy.data.tiling import Tile, drawable, lay_out, paint
from understudy.errors import missing_extra
from understudy.federation.cohorts import in_order
from understudy.files import write_whole
from understudy.printable import printable
from understudy.runs.folder import Line, RunFolder
from understudy.runs.tracking.tracker import FOLDER, TrackedRun, Tracker
from understudy.runs.watching import Observer, PassesOn

KINDS = {
    "tensorboard": ("to_tensorboard", "TensorBoard"),
    "mlflow": ("to_mlflow", "MLflow"),
    "wandb": ("to_wandb", "WeightsAndBiases"),
}
# What they would report to their makers, unless the user has decided; read when they are imported.
UNLESS_SET = {"MLFLOW_DISABLE_TELEMETRY": "true", "WANDB_ERROR_REPORTING": "false"}
TOLD = "told.json"  # what each tracker knows the run as, and the last round it was told
MOST_CLIENTS = 25  # in one picture
PER_CLASS = 4  # images
ARTEFACTS = ("ledger.json", "summary.json")

Trackers = dict[str, Tracker]


def trackers_named(names: Sequence[str]) -> Trackers:
    return {name: _tracker(name) for name in names}


def _tracker(name: str) -> Tracker:
    module, kind = KINDS[name]
    for variable, value in UNLESS_SET.items():
        os.environ.setdefault(variable, value)
    try:
        found: Tracker = getattr(importlib.import_module(f"understudy.runs.tracking.{module}"), kind)()
        return found
    except ImportError:
        raise missing_extra(f"track: {name}", name) from None


@contextmanager
def tracked(
    trackers: Trackers, folder: RunFolder, words: Mapping[str, Any], problem: Problem, watcher: Observer
) -> Iterator[Observer]:
    """The observer to give to the run. However the run ends, trackers are told."""
    if not trackers:
        yield watcher
        return
    tracking = Tracking(trackers, folder, words, problem, watcher)
    try:
        yield tracking
    finally:
        tracking.ends()


class Tracking(PassesOn):
    """Passes everything on to another observer, and tells the trackers what they keep."""

    def __init__(
        self, trackers: Trackers, folder: RunFolder, words: Mapping[str, Any], problem: Problem, inner: Observer
    ):
        super().__init__(inner)
        self._trackers, self._folder, self._words, self._problem = dict(trackers), folder, words, problem
        self._told: dict[str, tuple[str, int]] = {}  # what a tracker knows the run as, and the last round it was told
        self._begun: set[str] = set()
        self._drawn: dict[str, int] = {}  # synthetic sets in the last picture, by the time they were written
        self._rounds, self._resumed_at, self._last = 0, -1, -1

    def begins(self, rounds: int, done: int, clients: int, folder: Path) -> None:
        super().begins(rounds, done, clients, folder)
        self._rounds, self._resumed_at = rounds, done
        run = TrackedRun(folder.resolve().name, self._folder.id, folder.resolve(), self._words)
        (run.folder / FOLDER).mkdir(exist_ok=True)
        self._told = self._read()  # also of trackers that are not told this time
        for name, tracker in list(self._trackers.items()):
            known_as, last = self._told.get(name, (None, -1))
            with self._left_out_if_it_fails(name):
                now_known_as = tracker.begin(run, known_as)
                self._told[name] = now_known_as, last if now_known_as == known_as else -1
                self._begun.add(name)
        self._write()

    def scored(self, line: Line) -> None:
        super().scored(line)
        round = self._last = line["round"]
        numbers, picture = numbers_in(line), cache(self._picture)
        # Of rounds before the last one, a resumed run has no pictures any more.
        drawn = round >= self._resumed_at and self._sets_changed() and drawable(self._problem)
        for name, tracker in list(self._trackers.items()):
            known_as, last = self._told[name]
            if round <= last:
                continue
            with self._left_out_if_it_fails(name):
                tracker.numbers(round, numbers)
                if drawn:
                    tracker.picture(round, picture())
                self._told[name] = known_as, round
        self._write()

    def ends(self) -> None:
        for name, tracker in list(self._trackers.items()):
            if name not in self._begun:
                continue
            with self._left_out_if_it_fails(name):
                for path in (self._folder.path / file for file in ARTEFACTS):
                    if path.exists():
                        tracker.file(path)
                tracker.end(self._last >= self._rounds)

    # ---- pictures

    def _sets_changed(self) -> bool:
        files = (self._folder.path / "synthetic").glob("[!.]*.npz")
        now = {file.name: file.stat().st_mtime_ns for file in files}
        changed, self._drawn = now != self._drawn, now
        return changed

    def _picture(self) -> Tile:
        sets = self._folder.synthetic()
        return paint(lay_out(sets, in_order(sets)[:MOST_CLIENTS], self._problem, PER_CLASS), self._problem)

    # ---- inside

    @contextmanager
    def _left_out_if_it_fails(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # a tracker may raise anything, and a run is worth more than its record elsewhere
            del self._trackers[name]
            why = printable(str(error) or type(error).__name__, 200)
            self.says(f"Tracking by {name} has stopped ({why}); the run continues, and its folder has everything.")

    def _read(self) -> dict[str, tuple[str, int]]:
        """Damaged, it is as if they had never been told."""
        try:
            saved = json.loads((self._folder.path / FOLDER / TOLD).read_bytes())
            return {name: (str(known_as), int(told)) for name, (known_as, told) in saved.items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return {}

    def _write(self) -> None:
        write_whole(self._folder.path / FOLDER / TOLD, (json.dumps(self._told) + "\n").encode(), durable=False)


def numbers_in(line: Line) -> dict[str, float]:
    """What can be drawn over rounds; no bools, no lists."""
    return {
        key: float(value)
        for key, value in line.items()
        if key != "round" and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }
