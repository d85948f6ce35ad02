"""A tuned comparison on its way: means over seeds, each in a band from the worst seed to the best.

One row a panel; on the left over rounds, on the right over what was sent. A method has one colour in all panels. The
opening, where nobody has learnt anything yet, is left out, so that small differences later on can be seen.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.papers.seed_curves import SeedCurve
from understudy.view.canvas import FAINT, INK, SOFT, empty_figure, line_look, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, ROW, AROUND = 9.0, 2.6, 0.6  # inches: across, a panel, and what is above them
LETTERS_A_LINE, LABELS_A_LINE = 88, 6
STEP = 10  # percent: accuracies begin at a multiple of it


def draw_claims(panels: Mapping[str, Sequence[SeedCurve]], file: Path, title: str) -> Path:
    return save_figure(claims_figure(panels, title), file)


def claims_figure(panels: Mapping[str, Sequence[SeedCurve]], title: str) -> "Figure":
    from matplotlib.ticker import MaxNLocator

    labels = list(dict.fromkeys(curve.label for panel in panels.values() for curve in panel))
    looks = {label: line_look(number) for number, label in enumerate(labels)}
    lines_below = math.ceil(len(labels) / LABELS_A_LINE)
    below = 0.75 + 0.25 * lines_below
    height = AROUND + below + ROW * len(panels)
    figure = empty_figure(WIDTH, height)
    rows = figure.subplots(len(panels), 2, squeeze=False)
    for (by_round, by_megabyte), (heading, panel) in zip(rows, panels.items(), strict=True):
        for curve in panel:
            _banded(by_round, curve, curve.rounds, *looks[curve.label])
            _banded(by_megabyte, curve, curve.sent, *looks[curve.label])
        _dress(by_round, f"{heading}: over rounds", panel)
        _dress(by_megabyte, f"{heading}: over megabytes", panel)
        by_round.set_ylabel("accuracy (%)", color=INK, fontsize=9)
        by_round.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8, min_n_ticks=1))
        by_megabyte.set_xlim(left=0)
    rows[-1][0].set_xlabel("round", color=INK, fontsize=9)
    rows[-1][1].set_xlabel("megabytes exchanged, up and down, all clients", color=INK, fontsize=9)
    _legend(figure, labels, math.ceil(len(labels) / lines_below))
    words = "\n".join(textwrap.wrap(title, LETTERS_A_LINE))
    figure.suptitle(words, color=INK, fontsize=11, fontweight="bold", x=0.065, y=1 - 0.12 / height, ha="left", va="top")
    figure.subplots_adjust(
        left=0.065, right=0.985, wspace=0.14, hspace=0.4, bottom=below / height, top=1 - 0.8 / height
    )
    return figure


def _banded(axes: "Axes", curve: SeedCurve, x: Sequence[float], colour: str, dashes: str) -> None:
    first = _first(curve)
    low, mean, high = ([100 * value for value in line[first:]] for line in (curve.lowest, curve.mean, curve.highest))
    axes.fill_between(x[first:], low, high, color=colour, alpha=0.13, linewidth=0)
    axes.plot(
        x[first:], mean, color=colour, linestyle=dashes, linewidth=1.8, marker="o", markersize=3.2, label=curve.label
    )


def _first(curve: SeedCurve) -> int:
    return 1 if len(curve.rounds) > 1 and curve.rounds[0] == 0 else 0


def _dress(axes: "Axes", heading: str, panel: Sequence[SeedCurve]) -> None:
    axes.set_title(heading, loc="left", color=INK, fontsize=9.5)
    lowest = 100 * min(min(curve.lowest[_first(curve) :]) for curve in panel)
    highest = 100 * max(max(curve.highest) for curve in panel)
    axes.set_ylim(STEP * (lowest // STEP), 100 if highest > 60 else max(highest * 1.15, 1))
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=SOFT, labelsize=8, length=3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(SOFT)


def _legend(figure: "Figure", labels: Sequence[str], columns: int) -> None:
    handles = {}
    for axes in figure.axes:
        lines, names = axes.get_legend_handles_labels()
        handles.update(dict(zip(names, lines, strict=True)))
    figure.legend(
        [handles[label] for label in labels],
        list(labels),
        loc="lower center",
        ncols=columns,
        frameon=False,
        fontsize=9,
        labelcolor=INK,
        title="mean over seeds, in a band from the worst seed to the best",
        title_fontproperties={"size": 8},
    )
