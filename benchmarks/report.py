"""What was measured against what, and whether that is good enough."""

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Row:
    what: str
    unit: str
    ours: float
    theirs: float | None  # None: the goal is for our figure itself
    goal: float | None  # None: for comparison only
    wanted: Literal["at least", "at most"] = "at least"

    @property
    def measured(self) -> float:
        """What the goal is about."""
        return self.ours if self.theirs is None else self.ours / self.theirs

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        return self.measured >= self.goal if self.wanted == "at least" else self.measured <= self.goal

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": None if self.theirs is None else self.measured, "met": self.met}


def machine() -> dict[str, Any]:
    import torch

    return {
        "cores": os.cpu_count(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": 1,  # of torch, in every contender
        "load": round(os.getloadavg()[0], 2),
        "taken by others": {},  # of the machine, by part
    }


def table(rows: Sequence[Row]) -> str:
    head = ("", "ours", "theirs", "unit", "ratio", "goal", "")
    lines = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(_line(cells, widths) for cells in lines)


def _cells(row: Row) -> tuple[str, ...]:
    sign = "≥" if row.wanted == "at least" else "≤"
    theirs, ratio = ("", "") if row.theirs is None else (_figure(row.theirs), f"{row.measured:.2f}")
    goal = "" if row.goal is None else f"{sign} {row.goal:g}"
    verdict = {True: "met", False: "NOT MET", None: ""}[row.met]
    return (row.what, _figure(row.ours), theirs, row.unit, ratio, goal, verdict)


def _figure(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    words = {0, 3, 6}  # the other columns are numbers and end in line
    laid = [
        cell.ljust(width) if column in words else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(laid).rstrip()
