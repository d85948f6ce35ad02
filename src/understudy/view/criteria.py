"""Matching criteria side by side: the real loss along each walk, and how well the gradients agree on the way."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from understudy.studies.criteria import REAL, Walk
from understudy.view.canvas import FAINT, INK, SOFT, empty_figure, line_look, save_figure
from understudy.view.ruled import number, ruled, words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 10.5, 3.6  # inches


def draw_criteria(walks: Sequence[Walk], file: Path, title: str = "") -> Path:
    return save_figure(criteria_figure(walks, title), file)


def criteria_table(walks: Sequence[Walk], gap: int = 2) -> Table:
    table = ruled(gap)
    words(table, "criterion", whole=True)
    for heading in ("first gain", "last loss", "cosine, first", "last", "length, first", "last"):
        number(table, heading)
    for one in walks:
        numbers = (one.first_gain, one.loss[-1], one.cosine[0], one.cosine[-1], one.length[0], one.length[-1])
        table.add_row(Text(one.label), *(Text(f"{value:.3f}") for value in numbers))
    return table


def criteria_figure(walks: Sequence[Walk], title: str = "") -> "Figure":
    figure = empty_figure(WIDTH, HEIGHT)
    loss, cosine, length = figure.subplots(1, 3)
    for at, one in enumerate(walks):
        colour, dashes = (SOFT, "--") if one.label == REAL else line_look(at)
        for axes, values in ((loss, one.loss), (cosine, one.cosine), (length, one.length)):
            axes.plot(range(len(values)), values, color=colour, linestyle=dashes, linewidth=1.8, label=one.label)
    loss.set_yscale("log")
    _dress(loss, "loss on real records")
    _dress(cosine, "cosine to the real gradient")
    _dress(length, "length, as a share of the real one's")
    cosine.set_ylim(top=1.05)
    length.set_ylim(bottom=0)
    handles, labels = loss.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(walks), frameon=False, fontsize=9, labelcolor=INK)
    heading = title or "Where a synthetic gradient leads, by what it was matched with"
    figure.suptitle(heading, color=INK, fontsize=12, fontweight="bold", x=0.05, ha="left")
    figure.subplots_adjust(left=0.05, right=0.985, wspace=0.2, bottom=0.24, top=0.82)
    return figure


def _dress(axes: "Axes", heading: str) -> None:
    axes.set_title(heading, loc="left", color=INK, fontsize=9.5)
    axes.set_xlabel("steps along it", color=INK, fontsize=9)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=SOFT, labelsize=8, length=3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(SOFT)
