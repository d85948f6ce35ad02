"""Accuracy over rounds and over megabytes, for several runs, in one picture."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.errors import UserError
from understudy.runs.compare import MEGABYTE, compare, distinct_labels, read_metrics
from understudy.runs.folder import Line
from understudy.view.canvas import FAINT, INK, SOFT, empty_figure, line_look, save_figure
from understudy.view.label_places import push_apart
from understudy.view.numbers import size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 9.0, 3.9  # inches; 1800 dots across when saved
LABEL_SIZE = 8.5  # points
LONGEST_LABEL = 32  # characters
LOG_FROM = 10  # from this ratio of the most to the least megabytes on, their axis is logarithmic


@dataclass(frozen=True)
class Curve:
    """The scored rounds of one run."""

    label: str
    colour: str
    dashes: str
    rounds: list[int]
    megabytes: list[float]  # up and down, all clients, from the opening to that round
    accuracies: list[float]  # in percent


def draw_curves(folders: Sequence[Path], file: Path, title: str = "") -> Path:
    return save_figure(curves_figure(folders, title), file)


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
    colour, dashes = line_look(number)
    return Curve(label, colour, dashes, [p[0] for p in scored], [p[1] for p in scored], [p[2] for p in scored])


def _short(label: str) -> str:
    """The end of a long folder name tells more than its middle."""
    return label if len(label) <= LONGEST_LABEL else f"{label[:16]}…{label[17 - LONGEST_LABEL :]}"


def curves_figure(folders: Sequence[Path], title: str = "") -> "Figure":
    curves = read_curves(folders)
    figure = empty_figure(WIDTH, max(HEIGHT, 1.4 + 0.2 * len(curves)))
    left, right = figure.subplots(1, 2, sharey=True)
    _by_round(left, curves)
    _by_megabyte(right, curves)
    at_clients = any(row.scored_at_clients for row in compare(folders))
    left.set_ylabel("accuracy (%)" if at_clients else "test accuracy (%)", color=INK, fontsize=9)
    figure.suptitle(
        title or "What each round and each megabyte buys", color=INK, fontsize=12, fontweight="bold", x=0.065, ha="left"
    )
    room = _label_room(curves)
    figure.subplots_adjust(left=0.065, right=1 - room / WIDTH, wspace=_space_between(room), bottom=0.14, top=0.84)
    for axes, xs, texts in (
        (left, [c.rounds[-1] for c in curves], [f"{c.label}  {c.accuracies[-1]:.1f} %" for c in curves]),
        (right, [c.megabytes[-1] for c in curves], [_cost(c) for c in curves]),
    ):
        _label_ends(axes, curves, xs, texts)
    return figure


def _cost(curve: Curve) -> str:
    return f"{curve.label}  {size(curve.megabytes[-1] * MEGABYTE)}"


def _label_room(curves: Sequence[Curve]) -> float:
    """Inches to the right of a panel for its longest label."""
    longest = max(max(len(_cost(curve)), len(curve.label) + 8) for curve in curves)
    return 0.25 + longest * LABEL_SIZE * 0.53 / 72


def _space_between(room: float) -> float:
    """In matplotlib's units: widths of a panel, two of which share the rest."""
    between = room + 0.3
    return between / ((WIDTH * 0.935 - room - between) / 2)


# ---- the two panels


def _by_round(axes: "Axes", curves: Sequence[Curve]) -> None:
    from matplotlib.ticker import MaxNLocator

    for curve in curves:
        _line(axes, curve, curve.rounds)
    _dress(axes, "over rounds", "round", max(max(curve.accuracies) for curve in curves))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8, min_n_ticks=1))
    axes.set_xlim(0, max(1, *(curve.rounds[-1] for curve in curves)))


def _by_megabyte(axes: "Axes", curves: Sequence[Curve]) -> None:
    totals = [curve.megabytes[-1] for curve in curves]
    logarithmic = min(totals) > 0 and max(totals) > LOG_FROM * min(totals)
    for curve in curves:
        # A logarithmic axis has no zero: there a line begins with the first round that sent anything.
        _line(axes, curve, [amount if amount or not logarithmic else math.nan for amount in curve.megabytes])
    _dress(axes, "over what was sent", "megabytes exchanged, up and down", max(max(c.accuracies) for c in curves))
    if logarithmic:
        first = min(amount for curve in curves for amount in curve.megabytes if amount)
        axes.set_xscale("log")
        axes.set_xlim(first * 0.9, max(totals))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    else:
        axes.set_xlim(0, max(totals) or 1)


def _line(axes: "Axes", curve: Curve, x: Sequence[float]) -> None:
    axes.plot(
        x,
        curve.accuracies,
        color=curve.colour,
        linestyle=curve.dashes,
        linewidth=1.8,
        marker="o",
        markersize=3.2 if len(x) <= 25 else 0,
        clip_on=False,
        zorder=3,
        label=curve.label,
    )


def _dress(axes: "Axes", heading: str, xlabel: str, highest: float) -> None:
    axes.set_title(heading, loc="left", color=INK, fontsize=9.5)
    axes.set_xlabel(xlabel, color=INK, fontsize=9)
    axes.set_ylim(0, 100 if highest > 60 else max(highest * 1.15, 1))
    axes.grid(axis="y", color=FAINT, linewidth=0.8, zorder=0)
    axes.tick_params(which="both", colors=SOFT, labelsize=8, length=3, labelleft=True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(SOFT)


def _label_ends(axes: "Axes", curves: Sequence[Curve], xs: Sequence[float], texts: Sequence[str]) -> None:
    """In the margin right of the panel, each at or near the height of its line's end, with a thin leader."""
    low, high = axes.get_ylim()
    inches = axes.get_position().height * axes.get_figure(root=True).get_figheight()  # type: ignore[union-attr]
    gap = (high - low) * LABEL_SIZE * 1.35 / 72 / inches
    edge = axes.get_xlim()[1]
    heights = push_apart([curve.accuracies[-1] for curve in curves], gap, low, high)
    for curve, x, text, height in zip(curves, xs, texts, heights, strict=True):
        end = curve.accuracies[-1]
        if x < edge:
            axes.plot([x, edge], [end, end], color=curve.colour, linewidth=0.7, linestyle=(0, (1, 2)), zorder=2)
        axes.annotate(
            text,
            xy=(edge, end),
            xytext=(1.05, height),
            textcoords=("axes fraction", "data"),
            color=curve.colour,
            fontsize=LABEL_SIZE,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": curve.colour, "linewidth": 0.7, "relpos": (0, 0.5), "shrinkB": 1},
        )
