"""A sweep as a table and as a picture."""

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from understudy.errors import UserError
from understudy.papers.study import Drawing, Panel, Trace
from understudy.runs.compare import Measure
from understudy.runs.swept import Swept, SweptSettings
from understudy.view.canvas import save_figure
from understudy.view.csv_files import write_csv
from understudy.view.numbers import NONE
from understudy.view.panels import drawing_figure
from understudy.view.ruled import number, print_notes, print_table, ruled, words

CHOSEN = "◀ chosen"
MEASURES: Mapping[Measure, str] = {"accuracy": "accuracy", "macro_f1": "F1 over classes"}


def print_sweep(swept: Swept, console: Console | None = None) -> None:
    console = console or Console()
    columns, rows = sweep_table(swept)

    def build(gap: int) -> Any:
        table = ruled(gap)
        for name in columns:
            number(table, name) if name in ("validation %", "held out %", "test %") else words(table, name)
        for at, row in enumerate(rows):
            table.add_row(*(Text(cell) for cell in row), style="bold" if at == swept.chosen else None)
        return table

    print_table(console, build)
    print_notes(console, sweep_notes(swept))


def sweep_table(swept: Swept) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: one row per combination, mean ± standard deviation over seeds."""
    tested = any(run.test is not None for run in swept.runs)
    chooser = "validation %" if swept.chosen_on == "validation" else "held out %"
    columns = [*swept.names, chooser, *(["test %"] if tested else []), ""]
    rows = []
    for at, line in enumerate(swept.lines):
        scores = [[run.validation for run in line.runs], *([[run.test for run in line.runs]] if tested else [])]
        last = CHOSEN if at == swept.chosen else f"failed: {line.why_failed}" if line.why_failed else ""
        rows.append([*(_said(line.settings[name]) for name in swept.names), *map(_mean_and_spread, scores), last])
    return columns, rows


def sweep_notes(swept: Swept) -> list[str]:
    over = f", mean ± standard deviation over seeds {', '.join(map(str, swept.seeds))}" if len(swept.seeds) > 1 else ""
    notes = [
        *swept.notes,
        f"{MEASURES[swept.measure].capitalize()} after the last round in %{over}.",
    ]
    if swept.chosen is None:
        return [*notes, "Nothing was chosen: no combination has a score with every seed."]
    if swept.chosen_on == "validation":
        return [*notes, f"Chosen by validation {MEASURES[swept.measure]}; the test set chose nothing."]
    return [
        *notes,
        "Chosen on records held out at the clients. There is no test set to report on, and a score that chose flatters "
        "what it chose.",
    ]


def sweep_drawing(swept: Swept) -> Drawing:
    """Every seed of every combination: what chose, and what is reported."""
    lines = list(reversed(swept.lines))  # names go up the side, and the first should be on top
    names = [label_of_line(line) for line in lines]
    chooser = "validation: this chose" if swept.chosen_on == "validation" else "held out: this chose"
    scores = {chooser: [[run.validation for run in line.runs] for line in lines]}
    if any(run.test is not None for run in swept.runs):
        scores["test: only reported"] = [[run.test for run in line.runs] for line in lines]
    panels = []
    for look, (heading, by_line) in enumerate(scores.items()):
        points = [(at, 100 * one) for at, line in enumerate(by_line) for one in line if one is not None]
        if points:
            trace = Trace("", [x for x, _ in points], [y for _, y in points], look, "seeds")
            panels.append(Panel(heading, "", f"{MEASURES[swept.measure]} (%)", [trace], names=names, sideways=True))
    if not panels:
        raise UserError("No run of the sweep has a score to draw.")
    return Drawing("Every combination, every seed", panels, legend="none")


def label_of_line(line: SweptSettings) -> str:
    return ", ".join(f"{key.rpartition('.')[2]} {_said(value)}" for key, value in line.settings.items()) or "as it is"


def draw_sweep(swept: Swept, file: Path) -> Path:
    return save_figure(drawing_figure(sweep_drawing(swept)), file)


def keep_sweep(swept: Swept, folder: Path) -> list[Path]:
    """The whole sweep as JSON, CSV and a picture, in its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "sweep.json"
    file.write_text(json.dumps(swept.as_dict(), indent=1, default=str) + "\n", encoding="utf-8")
    files = [file, write_csv(swept.rows(), folder / "sweep.csv")]
    if any(run.validation is not None for run in swept.runs):
        files.append(draw_sweep(swept, folder / "sweep.png"))
    return files


def _mean_and_spread(values: Sequence[float | None]) -> str:
    there = [value for value in values if value is not None]
    if not there or len(there) < len(values):
        return NONE
    spread = f" ± {100 * statistics.stdev(there):.1f}" if len(there) > 1 else ""
    return f"{100 * statistics.fmean(there):.1f}{spread}"


def _said(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_said(inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_said, value))}]"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
