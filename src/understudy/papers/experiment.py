"""A study that computes something of its own instead of comparing runs: numbers, a table, and panels of a picture."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from understudy.files import write_whole
from understudy.runs.watching import Observer

Style = Literal["line", "dashed", "dotted", "dots", "line and dots"]


@dataclass(frozen=True)
class Trace:
    """One line of a panel, or dots."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    look: int = 0  # number of colour; lines of one look belong together
    style: Style = "line"
    low: Sequence[float] | None = None  # with ``high``: a band around the line, from the worst seed to the best
    high: Sequence[float] | None = None


@dataclass(frozen=True)
class Panel:
    heading: str
    xlabel: str
    ylabel: str
    traces: Sequence[Trace]
    log_x: bool = False
    log_y: bool = False
    shaded: tuple[float, float] | None = None  # a stretch of the x axis that is meant
    ylim: tuple[float, float] | None = None


@dataclass(frozen=True)
class Findings:
    numbers: Mapping[str, Any]  # everything, for table.json
    table: str  # in Markdown
    panels: Sequence[Panel]
    notes: Sequence[str] = ()  # what holds and what does not, in sentences with numbers


@dataclass(frozen=True)
class Experiment:
    name: str
    about: str
    play: Callable[[Path, Observer], Findings]


def carry_out(experiment: Experiment, out: Path, observer: Observer) -> Findings:
    """Plays it and writes table.json and table.md; the picture is drawn by whoever shows it."""
    found = experiment.play(out, observer)
    out.mkdir(parents=True, exist_ok=True)
    content = {"name": experiment.name, "about": experiment.about, **found.numbers, "notes": list(found.notes)}
    write_whole(out / "table.json", (json.dumps(content, indent=1) + "\n").encode())
    notes = "".join(f"- {note}\n" for note in found.notes)
    write_whole(out / "table.md", "\n".join([found.table, *([notes] if notes else [])]).encode())
    return found


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Words left in the first column, numbers right in the others."""
    lines = ["| " + " | ".join(headings) + " |", "|---|" + "--:|" * (len(headings) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"
