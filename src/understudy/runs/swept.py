"""What a sweep found, as plain values. Validation records choose; the test set is only reported."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from understudy.runs.compare import Measure

Chooser = Literal["validation", "held-out"]  # records on the server, or at the clients


@dataclass(frozen=True)
class SweptRun:
    """One combination with one seed. Scores after the last round, between 0 and 1."""

    settings: Mapping[str, Any]  # what the combination sets, by the names as given
    seed: int
    folder: Path | None = None  # None: it was refused before it began
    validation: float | None = None  # on the records that choose
    test: float | None = None  # on the test set; None: there is none
    summary: Mapping[str, Any] | None = None
    why_failed: str = ""
    measure: Measure = "accuracy"  # F1 over classes where a record may have several labels

    def as_dict(self, measure: Measure = "accuracy") -> dict[str, Any]:
        """``measure``: the sweep's; runs that failed have none of their own."""
        summary = self.summary or {}
        costs = {key: summary.get(key) for key in ("rounds", "bytes_up", "bytes_down", "epsilon", "seconds")}
        return {
            **self.settings,
            "seed": self.seed,
            f"validation_{measure}": self.validation,
            f"test_{measure}": self.test,
            **costs,
            "failed": self.why_failed or None,
            "folder": None if self.folder is None else str(self.folder),
        }


@dataclass(frozen=True)
class SweptSettings:
    """One combination, with all its seeds."""

    settings: Mapping[str, Any]
    runs: Sequence[SweptRun]

    @property
    def validation(self) -> float | None:
        """The mean over seeds; None if a seed failed or has no score: means over fewer seeds do not compare."""
        return _mean([run.validation for run in self.runs])

    @property
    def test(self) -> float | None:
        return _mean([run.test for run in self.runs])

    @property
    def why_failed(self) -> str:
        return next((run.why_failed for run in self.runs if run.why_failed), "")


@dataclass(frozen=True)
class Swept:
    name: str  # of its folder
    names: Sequence[str]  # settings that were swept, as given
    seeds: Sequence[int]
    lines: Sequence[SweptSettings]
    chosen_on: Chooser = "validation"
    notes: Sequence[str] = ()
    measure: Measure = "accuracy"

    @property
    def chosen(self) -> int | None:
        """The number of the line with the highest validation score, the first of equals; test scores are not looked at.
        None: no line has one."""
        scored = [(line.validation, -at) for at, line in enumerate(self.lines) if line.validation is not None]
        return -max(scored)[1] if scored else None

    @property
    def runs(self) -> Iterator[SweptRun]:
        for line in self.lines:
            yield from line.runs

    def rows(self) -> list[dict[str, Any]]:
        """One per run, for CSV and frames."""
        chosen = self.chosen
        return [
            {**run.as_dict(self.measure), "chosen": at == chosen}
            for at, line in enumerate(self.lines)
            for run in line.runs
        ]

    def as_dict(self) -> dict[str, Any]:
        chosen = None if self.chosen is None else self.lines[self.chosen]
        best = chosen and {
            "settings": dict(chosen.settings),
            f"validation_{self.measure}": chosen.validation,
            f"test_{self.measure}": chosen.test,
        }
        return {
            "name": self.name,
            "swept": list(self.names),
            "seeds": list(self.seeds),
            "chosen_on": self.chosen_on,
            "measure": self.measure,
            "chosen": best,
            "notes": list(self.notes),
            "runs": self.rows(),
        }


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return statistics.fmean(there) if there and len(there) == len(values) else None
