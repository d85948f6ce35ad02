"""A study of its own kind as a person sees it: its table, and its panels side by side in one picture."""

import json
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.papers.experiment import Experiment, Panel, Trace, carry_out
from understudy.view.canvas import FAINT, INK, SOFT, empty_figure, line_look, save_figure
from understudy.view.progress import RichProgress

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_WIDTH, PANEL_HEIGHT, ACROSS = 4.3, 3.5, 3  # inches, and most panels in a row
LETTERS_AN_INCH = 10.5
LETTERS_UPWARDS = 44  # along a panel's height
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": 7.5, "labelcolor": INK}
LEGEND_WIDTH = 1.7  # inches of a line's label and sample
IN_COMMON = 6  # lines: from so many on, panels with the same ones share a legend below
PLAIN_BELOW = 100  # a logarithmic axis over less than this factor has plain numbers on it
STYLES: dict[str, dict[str, Any]] = {
    "line": {"linestyle": "-"},
    "dashed": {"linestyle": "--"},
    "dotted": {"linestyle": ":"},
    "dots": {"linestyle": "", "marker": "o", "markersize": 6},
    "line and dots": {"linestyle": "-", "marker": "o", "markersize": 4},
}


def show_experiment(experiment: Experiment, out: Path, *, quiet: bool = False) -> dict[str, Any]:
    """Carries it out, writes its table and picture into ``out``, and prints the table unless ``quiet``."""
    with RichProgress() as progress:
        found = carry_out(experiment, out, progress)
    save_figure(panels_figure(found.panels, experiment.about), out / "table.png")
    if not quiet:
        print(f"\n{(out / 'table.md').read_text()}\n{out / 'table.png'}")
    content: dict[str, Any] = json.loads((out / "table.json").read_text())
    return content


def panels_figure(panels: Sequence[Panel], title: str) -> "Figure":
    across = min(ACROSS, len(panels)) if len(panels) != 4 else 2
    down = math.ceil(len(panels) / across)
    width = across * PANEL_WIDTH
    wrapped = textwrap.wrap(title, int(width * LETTERS_AN_INCH))
    columns = int(width / LEGEND_WIDTH)
    below = 0.2 * math.ceil(len(panels[0].traces) / columns) if _alike(panels) else 0.0
    height = down * PANEL_HEIGHT + 0.25 * len(wrapped) + 0.1 + below
    figure = empty_figure(width, height)
    places = figure.subplots(down, across, squeeze=False).ravel()
    for axes, panel in zip(places, panels, strict=False):
        _draw(axes, panel)
        if not below:
            axes.legend(loc="best", **LEGEND)
    for axes in places[len(panels) :]:
        axes.set_visible(False)
    figure.suptitle("\n".join(wrapped), color=INK, fontsize=11, fontweight="bold", x=0.01, y=0.99, ha="left", va="top")
    figure.tight_layout(rect=(0, below / height, 1, 1))
    if below:
        figure.legend(*places[0].get_legend_handles_labels(), loc="lower center", ncols=columns, **LEGEND)
    return figure


def _alike(panels: Sequence[Panel]) -> bool:
    lines = [[(trace.label, trace.look, trace.style) for trace in panel.traces] for panel in panels]
    return len(panels) > 1 and len(lines[0]) >= IN_COMMON and all(each == lines[0] for each in lines)


def _draw(axes: "Axes", panel: Panel) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    if panel.shaded is not None:
        axes.axvspan(*panel.shaded, color=FAINT, zorder=0)
    for trace in panel.traces:
        _trace(axes, trace)
    axes.set_title("\n".join(textwrap.wrap(panel.heading, 52)), loc="left", color=INK, fontsize=9.5)
    axes.set_xlabel(panel.xlabel, color=INK, fontsize=9)
    axes.set_ylabel("\n".join(textwrap.wrap(panel.ylabel, LETTERS_UPWARDS)), color=INK, fontsize=9)
    if panel.log_x:
        axes.set_xscale("log")
    elif all(float(x).is_integer() for trace in panel.traces for x in trace.x):  # rounds, not two and a half of them
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if panel.log_y:
        axes.set_yscale("log")
    if panel.ylim is not None:
        axes.set_ylim(*panel.ylim)
    if panel.log_y and axes.get_ylim()[1] < PLAIN_BELOW * axes.get_ylim()[0]:
        axes.yaxis.set_major_locator(LogLocator(10, (1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(color=FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=SOFT, labelsize=8, length=3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(SOFT)


def _trace(axes: "Axes", trace: Trace) -> None:
    colour, _ = line_look(trace.look)
    if trace.low is not None and trace.high is not None:
        axes.fill_between(trace.x, trace.low, trace.high, color=colour, alpha=0.13, linewidth=0)
    axes.plot(trace.x, trace.y, color=colour, linewidth=1.6, label=trace.label, zorder=3, **STYLES[trace.style])
