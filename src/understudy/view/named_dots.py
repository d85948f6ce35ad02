"""Dots with their names beside them, in the colours of their families, and an axis with more room near 100 %."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy.papers.study import Trace
from understudy.view.canvas import INK, Axes, Figure, line_look
from understudy.view.label_places import beside_dots

SIZE, DOT = 8.5, 5.0  # points: of letters; of a dot and the air around it
TICKS = (10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 97, 98, 99, 99.5, 99.9)
MARGIN = 1.15  # the axis goes on to so many times what is missing to 100
REACH = 0.8  # in heights of a label: one that stands farther from its dot gets a thin line
GOAL = "#2e7d32"


def stretch_towards_100(axes: Axes) -> None:
    """Halving what is missing to 100 is one step, wherever it happens."""
    low, high = axes.dataLim.intervaly
    missing = (100 - low) * MARGIN, max(100 - high, 0.1) / MARGIN
    low, high = max(100 - missing[0], 0.0), 100 - missing[1]
    axes.set_yscale(
        "function", functions=(lambda y: -np.log(np.maximum(100.0 - y, 1e-3)), lambda v: 100.0 - np.exp(-v))
    )
    axes.set_ylim(low, high)
    axes.set_yticks([tick for tick in TICKS if low <= tick <= high])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def mark_goal(axes: Axes, goal: tuple[float, float, str]) -> None:
    """A frame around the corner at the upper left."""
    right, bottom, words = goal
    left, top = axes.get_xlim()[0], axes.get_ylim()[1]
    edge: dict[str, Any] = {"color": GOAL, "linewidth": 1.2, "linestyle": (0, (4, 2)), "zorder": 2}
    axes.plot([left, right], [bottom, bottom], **edge)
    axes.plot([right, right], [bottom, top], **edge)
    axes.annotate(
        words, xy=(left, top), xytext=(5, -4), textcoords="offset points", color=GOAL, fontsize=SIZE, va="top"
    )
    axes.set_xlim(left=left)
    axes.set_ylim(top=top)


def name_dots(figure: Figure, axes: Axes, traces: Sequence[Trace]) -> None:
    """Each label where there is room for it. The figure must have its final layout."""
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    a_point = figure.dpi / 72
    texts = [
        axes.annotate(
            trace.label,
            xy=(trace.x[0], trace.y[0]),
            textcoords="offset points",
            xytext=(0, 0),
            fontsize=SIZE,
            color=line_look(trace.look)[0],
            va="bottom",
        )
        for trace in traces
    ]
    boxes = [text.get_window_extent(renderer) for text in texts]
    sizes = [(box.width + 2 * a_point, box.height) for box in boxes]
    dots = [tuple(axes.transData.transform((trace.x[0], trace.y[0]))) for trace in traces]
    left, bottom, right, top = axes.get_window_extent(renderer).extents
    places = beside_dots(dots, sizes, DOT * a_point, (left, bottom, right, top))
    for trace, text, (x, y), place, (_, height) in zip(traces, texts, dots, places, sizes, strict=True):
        left, bottom, right, top = place
        text.set_position(((left - x) / a_point + 1, (bottom - y) / a_point))
        nearest = (min(max(x, left), right), min(max(y, bottom), top))
        if math.dist(nearest, (x, y)) > REACH * height:
            ends = axes.transData.inverted().transform([(x, y), nearest])
            axes.plot(*ends.T, color=line_look(trace.look)[0], linewidth=0.6, zorder=2)


def family_legend(figure: Figure, traces: Sequence[Trace], columns: int) -> None:
    """What each colour means, at the bottom."""
    from matplotlib.lines import Line2D

    looks = families(traces)
    dots = [Line2D([], [], marker="o", linestyle="", color=line_look(look)[0]) for look in looks.values()]
    figure.legend(dots, list(looks), loc="lower center", ncols=columns, fontsize=SIZE, frameon=False, labelcolor=INK)


def families(traces: Sequence[Trace]) -> dict[str, int]:
    """The look of each, in order."""
    return {trace.family: trace.look for trace in traces if trace.family}
