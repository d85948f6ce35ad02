"""Charts as values that the scripts of a page draw: lines over numbers or names, and tables of shades or states."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from understudy.papers.study import Panel, Trace

Value = float | int | None


@dataclass(frozen=True)
class Chart:
    """One figure of a page. ``values`` go into its JSON block."""

    name: str  # unique on its page; also the stem of its CSV
    heading: str
    values: dict[str, Any]
    about: str = ""  # a sentence below the heading
    wide: bool = False  # takes the page's whole width


@dataclass(frozen=True)
class CellState:
    """What a cell can say, with the variable of the stylesheet that colours it."""

    label: str
    colour: str


@dataclass(frozen=True)
class CellTable:
    """A table of numbers, or of places in ``states``; None where nothing is known."""

    rows: tuple[str, Sequence[str]]  # what a row is, and the rows' names
    columns: tuple[str, Sequence[str]]
    cells: Sequence[Sequence[Value]]
    scale: Literal["count", "share"] = "count"
    most: float | None = None  # the value of the deepest shade; None: the largest
    unit: str = ""
    states: Sequence[CellState] = field(default_factory=tuple)


def line_chart(name: str, panel: Panel, about: str = "", *, wide: bool = False) -> Chart:
    """A ``sideways`` panel is drawn upright: names are written along the x axis, aslant."""
    values = {
        "kind": "lines",
        "name": name,
        "heading": panel.heading,
        "x": {"label": panel.xlabel, "log": panel.log_x, "zero": panel.from_zero, "names": list(panel.names)},
        "y": {"label": panel.ylabel, "log": panel.log_y, "range": None if panel.ylim is None else list(panel.ylim)},
        "lines": [_line(trace) for trace in panel.traces],
        "level": None if panel.level is None else list(panel.level),
        "shaded": None if panel.shaded is None else list(panel.shaded),
    }
    return Chart(name, panel.heading, values, about, wide)


def cell_chart(name: str, heading: str, cells: CellTable, about: str = "", *, wide: bool = False) -> Chart:
    (row, rows), (column, columns) = cells.rows, cells.columns
    values = {
        "kind": "cells",
        "name": name,
        "heading": heading,
        "rows": {"label": row, "names": list(rows)},
        "columns": {"label": column, "names": list(columns)},
        "cells": [_finite(line) for line in cells.cells],
        "scale": cells.scale,
        "most": cells.most,
        "unit": cells.unit,
        "states": [vars(state) for state in cells.states],
    }
    return Chart(name, heading, values, about, wide)


def _line(trace: Trace) -> dict[str, Any]:
    return {
        "label": trace.label,
        "look": trace.look,
        "style": trace.style,
        "x": _finite(trace.x),
        "y": _finite(trace.y),
        "low": None if trace.low is None else _finite(trace.low),
        "high": None if trace.high is None else _finite(trace.high),
    }


def _finite(values: Iterable[Value]) -> list[Value]:
    """JSON has no infinity. Seven digits are more than anybody reads, and half the size of all."""
    return [None if one is None or not math.isfinite(one) else _short(one) for one in values]


def _short(value: float | int) -> float | int:
    return value if isinstance(value, int) else float(f"{value:.7g}")
