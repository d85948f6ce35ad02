"""Accuracy over rounds and over megabytes, for several runs, in one picture."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from understudy.errors import UserError
from understudy.files import MEGABYTE
from understudy.papers.study import Drawing, Panel, Style, Trace, axis_top
from understudy.runs.compare import compare, distinct_labels, read_metrics
from understudy.runs.folder import Line
from understudy.view.canvas import save_figure
from understudy.view.numbers import size
from understudy.view.panels import drawing_figure

LONGEST_LABEL = 32  # characters
LOG_FROM = 10  # from this ratio of the most to the least megabytes on, their axis is logarithmic
MOST_DOTS = 25  # a line of more rounds has none


@dataclass(frozen=True)
class Curve:
    """The scored rounds of one run."""

    label: str
    look: int  # number of colour
    rounds: list[int]
    megabytes: list[float]  # up and down, all clients, from the opening to that round
    accuracies: list[float]  # in percent

    def over(self, x: Sequence[float], reached: str) -> Trace:
        style: Style = "line and dots" if len(x) <= MOST_DOTS else "line"
        return Trace(f"{self.label}  {reached}", x, self.accuracies, self.look, style)


def draw_curves(folders: Sequence[Path], file: Path, title: str = "") -> Path:
    return save_figure(drawing_figure(curves_of_runs(folders, title)), file)


def read_curves(folders: Sequence[Path]) -> list[Curve]:
    """Colours follow the order of the folders, scored or not; runs without a score have no curve."""
    labels = distinct_labels(compare(folders))
    curves = [
        _curve(_short(label), number, read_metrics(folder))
        for number, (folder, label) in enumerate(zip(folders, labels, strict=True))
    ]
    found = [curve for curve in curves if curve.rounds]
    if not found:
        raise UserError(f"No round of {', '.join(map(str, folders)) or 'no run'} has an accuracy to draw yet.")
    return found


def _curve(label: str, number: int, metrics: Sequence[Line]) -> Curve:
    sent = accumulate(line["bytes_up"] + line["bytes_down"] for line in metrics)
    scored = [
        (line["round"], total / MEGABYTE, 100 * line["accuracy"])
        for line, total in zip(metrics, sent, strict=True)
        if line.get("accuracy") is not None
    ]
    return Curve(label, number, [p[0] for p in scored], [p[1] for p in scored], [p[2] for p in scored])


def _short(label: str) -> str:
    """The end of a long folder name tells more than its middle."""
    return label if len(label) <= LONGEST_LABEL else f"{label[:16]}…{label[17 - LONGEST_LABEL :]}"


def curves_of_runs(folders: Sequence[Path], title: str = "") -> Drawing:
    curves = read_curves(folders)
    ylim = (0.0, axis_top(max(max(curve.accuracies) for curve in curves)))
    at_clients = any(row.scored_at_clients for row in compare(folders))
    measured = "accuracy (%)" if at_clients else "test accuracy (%)"
    by_round = [one.over(one.rounds, f"{one.accuracies[-1]:.1f} %") for one in curves]
    totals = [curve.megabytes[-1] for curve in curves]
    log = min(totals) > 0 and max(totals) > LOG_FROM * min(totals)
    # A logarithmic axis has no zero: there a line begins with the first round that sent anything.
    sent = [[amount if amount or not log else math.nan for amount in curve.megabytes] for curve in curves]
    by_megabyte = [one.over(x, size(x[-1] * MEGABYTE)) for one, x in zip(curves, sent, strict=True)]
    across = "megabytes exchanged, up and down"
    panels = [
        Panel("over rounds", "round", measured, by_round, ylim=ylim, from_zero=True),
        Panel("over what was sent", across, "", by_megabyte, log_x=log, ylim=ylim, from_zero=not log),
    ]
    return Drawing(title or "What each round and each megabyte buys", panels, legend="ends")
