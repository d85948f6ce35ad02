"""Panels of a study in one picture: lines in bands, dots, every seed with its mean, over numbers or over names."""

import math
import statistics
import textwrap
from collections.abc import Sequence
from typing import Any

from understudy.papers.study import Drawing, Panel, Trace
from understudy.view.canvas import FAINT, INK, SOFT, Axes, Figure, empty_figure, line_look
from understudy.view.label_places import push_apart
from understudy.view.named_dots import families, family_legend, mark_goal, name_dots, stretch_towards_100

PANEL_WIDTH, PANEL_HEIGHT, ACROSS = 4.3, 3.5, 3  # inches, and the most panels in a row
ALONE, LOWER, A_NAME = 8.0, 2.8, 0.3  # inches: one panel's width, a panel's height in many rows, a name down the side
LETTERS_AN_INCH = 10.5
HEADING, HEADING_ALONE = 52, 95  # letters in a line of a panel's heading
LETTERS_UPWARDS = 44  # along a panel's height
LEGEND: dict[str, Any] = {"frameon": False, "labelcolor": INK}
END_SIZE, END_WIDTH, END_HEIGHT = 8.5, 4.5, 0.2  # of labels at line ends: points; inches, with the panel; inches
LEGEND_WIDTH = 1.7  # inches for a line's label and sample
FAMILY_WIDTH, NAMED_HEIGHT = 2.6, 6.2  # inches: for what a colour means; of a panel whose dots have names beside them
PLAIN_BELOW = 100  # a logarithmic axis that spans less than this factor shows plain numbers
STYLES: dict[str, dict[str, Any]] = {
    "line": {"linestyle": "-"},
    "dashed": {"linestyle": "--"},
    "dotted": {"linestyle": ":"},
    "dots": {"linestyle": "", "marker": "o", "markersize": 6},
    "line and dots": {"linestyle": "-", "marker": "o", "markersize": 4},
}


def drawing_figure(drawing: Drawing) -> Figure:
    panels = drawing.panels
    across = drawing.across or (min(ACROSS, len(panels)) if len(panels) != 4 else 2)
    down = math.ceil(len(panels) / across)
    ends, beside = drawing.legend == "ends", drawing.legend == "beside"
    width = ALONE if len(panels) == 1 else across * (END_WIDTH if ends else PANEL_WIDTH)
    title = textwrap.wrap(drawing.title, int(width * LETTERS_AN_INCH))
    traces = [trace for panel in panels for trace in panel.traces]
    labels = list(families(traces) if beside else dict.fromkeys(label for panel in panels for label in _labels(panel)))
    columns = min(len(labels), int(width / (FAMILY_WIDTH if beside else LEGEND_WIDTH))) or 1
    below = 0.15 + 0.2 * math.ceil(len(labels) / columns) if beside or drawing.legend == "below" else 0.0
    height = down * (NAMED_HEIGHT if beside else _height(panels[0], down, ends)) + 0.25 * len(title) + 0.1 + below
    figure = empty_figure(width, height)
    places = figure.subplots(down, across, squeeze=False, sharey=drawing.same_height).ravel()
    for axes, panel in zip(places, panels, strict=False):
        draw_panel(axes, panel, HEADING if len(panels) > 1 else HEADING_ALONE)
        if drawing.legend == "in each":
            axes.legend(loc="best", fontsize=7.5, **LEGEND)
    for axes in places[len(panels) :]:
        axes.set_visible(False)
    figure.suptitle("\n".join(title), color=INK, fontsize=11, fontweight="bold", x=0.01, y=0.99, ha="left", va="top")
    figure.tight_layout(rect=(0, below / height, 1, 1))
    if ends:
        for axes, panel in zip(places, panels, strict=False):
            _label_ends(axes, panel.traces)
        figure.tight_layout()  # again, with room for the labels
    if beside:
        family_legend(figure, traces, columns)
        figure.canvas.draw()
        for axes, panel in zip(places, panels, strict=False):
            name_dots(figure, axes, panel.traces)
    elif below:
        _legend_below(figure, labels, columns)
    return figure


def _height(panel: Panel, down: int, ends: bool) -> float:
    if panel.sideways:
        return 0.9 + A_NAME * len(panel.names)
    if ends:
        return max(PANEL_HEIGHT, 1 + END_HEIGHT * len(panel.traces))
    return PANEL_HEIGHT if down <= 2 else LOWER


def _labels(panel: Panel) -> list[str]:
    return [trace.label for trace in panel.traces] + ([] if panel.level is None else [panel.level[0]])


def _legend_below(figure: Figure, labels: list[str], columns: int) -> None:
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        lines, names = axes.get_legend_handles_labels()
        handles |= dict(zip(names, lines, strict=True))
    figure.legend([handles[one] for one in labels], labels, loc="lower center", ncols=columns, fontsize=8.5, **LEGEND)


def _label_ends(axes: Axes, traces: Sequence[Trace]) -> None:
    """In the margin right of the panel, each at or near the height of its line's end, with a thin leader."""
    for line in axes.lines:
        line.set_clip_on(False)  # the axis ends where the longest line does, and its last dot is whole
    edge = max(trace.x[-1] for trace in traces) or 1
    axes.set_xlim(right=edge)
    low, high = axes.get_ylim()
    inches = axes.get_window_extent().height / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
    gap = (high - low) * END_SIZE * 1.35 / 72 / inches
    heights = push_apart([trace.y[-1] for trace in traces], gap, low, high)
    for trace, height in zip(traces, heights, strict=True):
        colour, _ = line_look(trace.look)
        thin: dict[str, Any] = {"color": colour, "linewidth": 0.7}
        x, y = trace.x[-1], trace.y[-1]
        if x < edge:
            axes.plot([x, edge], [y, y], linestyle=(0, (1, 2)), zorder=2, **thin)
        axes.annotate(
            trace.label,
            xy=(edge, y),
            xytext=(1.05, height),
            textcoords=("axes fraction", "data"),
            color=colour,
            fontsize=END_SIZE,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "relpos": (0, 0.5), "shrinkB": 1, **thin},
        )


def draw_panel(axes: Axes, panel: Panel, heading: int = HEADING) -> None:
    """``heading``: letters in a line of it."""
    if panel.shaded is not None:
        axes.axvspan(*panel.shaded, color=FAINT, zorder=0)
    if panel.level is not None:
        axes.axhline(panel.level[1], color=SOFT, linestyle="--", linewidth=1.2, label=panel.level[0])
    for trace in panel.traces:
        _seeds(axes, trace, panel.sideways) if trace.style.endswith("seeds") else _line(axes, trace)
    axes.set_title("\n".join(textwrap.wrap(panel.heading, heading)), loc="left", color=INK, fontsize=9.5)
    named, measured = (axes.set_ylabel, axes.set_xlabel) if panel.sideways else (axes.set_xlabel, axes.set_ylabel)
    named(panel.xlabel, color=INK, fontsize=9)
    letters = LETTERS_UPWARDS if not panel.sideways else 100
    measured("\n".join(textwrap.wrap(panel.ylabel, letters)), color=INK, fontsize=9)
    axes.tick_params(which="both", colors=SOFT, labelsize=8, length=3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(SOFT)
    axes.set_axisbelow(True)
    _names(axes, panel) if panel.names else _scales(axes, panel)


def _names(axes: Axes, panel: Panel) -> None:
    """Names of the places along one axis; the grid is for the other."""
    places = range(len(panel.names))
    if panel.sideways:
        axes.set_yticks(places, list(panel.names), color=INK, fontsize=9)
        axes.set_ylim(-0.7, len(places) - 0.3)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
    else:
        axes.set_xticks(places, list(panel.names), fontsize=9)
        axes.set_xlim(-0.5, len(places) - 0.5)
    axes.grid(axis="x" if panel.sideways else "y", color=FAINT, linewidth=0.8)


def _scales(axes: Axes, panel: Panel) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    if panel.log_x:
        axes.set_xscale("log")
        if panel.xlim is not None:
            axes.set_xlim(*panel.xlim)
        if axes.get_xlim()[1] < 10 * PLAIN_BELOW * axes.get_xlim()[0]:
            axes.xaxis.set_major_locator(LogLocator(10, (1, 2, 5)))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
    elif all(float(x).is_integer() for trace in panel.traces for x in trace.x):  # whole rounds, no halves
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))
    if panel.from_zero:
        axes.set_xlim(left=0)
    if panel.near_100:
        stretch_towards_100(axes)
    if panel.goal is not None:
        mark_goal(axes, panel.goal)
    if panel.log_y:
        axes.set_yscale("log")
    if panel.ylim is not None:
        axes.set_ylim(*panel.ylim)
    if panel.log_y and axes.get_ylim()[1] < PLAIN_BELOW * axes.get_ylim()[0]:
        axes.yaxis.set_major_locator(LogLocator(10, (1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(color=FAINT, linewidth=0.7)


def _line(axes: Axes, trace: Trace) -> None:
    colour, dashes = line_look(trace.look)
    if trace.low is not None and trace.high is not None:
        axes.fill_between(trace.x, trace.low, trace.high, color=colour, alpha=0.13, linewidth=0)
    style = STYLES[trace.style]
    if style["linestyle"] == "-":  # lines of one colour differ in their dashes
        style = {**style, "linestyle": dashes}
    axes.plot(trace.x, trace.y, color=colour, linewidth=1.6, label=trace.label, zorder=3, **style)


def _seeds(axes: Axes, trace: Trace, sideways: bool) -> None:
    """One dot per seed, a bar at the mean of those at one place."""
    colour, _ = line_look(trace.look)
    there: dict[float, list[float]] = {}
    for x, y in zip(trace.x, trace.y, strict=True):
        there.setdefault(x, []).append(y)
    means = [statistics.fmean(values) for values in there.values()]

    def plot(x: Any, y: Any, marker: str, **how: Any) -> None:
        axes.plot(*((y, x) if sideways else (x, y)), marker, color=colour, **how)

    if trace.style == "joined seeds":
        plot(list(there), means, "-", linewidth=1.4, alpha=0.6)
    plot(trace.x, trace.y, "o", markersize=4.5, alpha=0.55, label=trace.label or None)
    plot(list(there), means, "|" if sideways else "_", markersize=13, markeredgewidth=2)
