"""How skewed a federation is, at a glance: clients down, classes across, discs sized by the number of records.

If there are too many clients or classes for discs, the same table is drawn as shades.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from understudy.data.federation import Federation
from understudy.data.skew import Skew, measure_skew
from understudy.view.canvas import FAINT, INK, SOFT, Axes, Figure, empty_figure, save_figure

MOST_CLIENTS, MOST_CLASSES = 40, 24  # for discs
CELL = 0.42  # inches per row and column if there is room


def draw_split(federation: Federation, path: Path, title: str = "") -> Path:
    return save_figure(split_figure(measure_skew(federation), title), path)


def split_figure(skew: Skew, title: str = "") -> Figure:
    counts = np.array(skew.label_counts)
    clients, classes = counts.shape
    discs = clients <= MOST_CLIENTS and classes <= MOST_CLASSES
    bars = max(3.0, 0.3 * classes)  # their space to the right of the table, in columns
    figure = empty_figure(*_inches(clients, classes + bars, discs))
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    if discs:
        _discs(axes, counts)
    else:
        _shades(axes, counts)
    _bars(axes, [client.records for client in skew.clients], classes, bars)
    _class_axis(axes, skew.label_names, bars)
    _client_axis(axes, [client.name for client in skew.clients])
    figure.suptitle(title or "Who holds what", color=INK, fontsize=13, fontweight="bold")
    figure.supxlabel(_caption(skew), color=INK, fontsize=8.5)
    return figure


def _inches(rows: int, columns: float, discs: bool) -> tuple[float, float]:
    if discs:
        return max(columns * CELL, 5.4) + 1.2, rows * CELL + 1.6
    return float(np.clip(columns * CELL, 5.4, 11)) + 1.2, float(np.clip(rows * CELL, 2, 11)) + 1.6


def _discs(axes: Axes, counts: NDArray[np.int64]) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Circle

    rows, columns = np.nonzero(counts)
    radii = 0.46 * np.sqrt(counts[rows, columns] / max(counts.max(), 1))  # area shows the number of records
    discs = [
        Circle((column, row), max(radius, 0.03))
        for row, column, radius in zip(rows.tolist(), columns.tolist(), radii.tolist(), strict=True)
    ]
    axes.add_collection(PatchCollection(discs, facecolors=_colours(counts.shape[1])[columns], zorder=2))
    axes.hlines(range(len(counts)), -0.5, counts.shape[1] - 0.5, color=FAINT, linewidth=0.6, zorder=1)
    axes.set_aspect("equal", adjustable="box")


def _colours(classes: int) -> NDArray[np.float64]:
    from matplotlib import colormaps

    if classes <= 10:
        return colormaps["tab10"](np.arange(classes))
    return colormaps["turbo"](np.linspace(0.05, 0.95, classes))


def _shades(axes: Axes, counts: NDArray[np.int64]) -> None:
    # The square root, as for discs: a client's few records of a class stay visible beside its thousands.
    shades = np.ma.masked_equal(np.sqrt(counts), 0)
    top = float(np.sqrt(max(counts.max(), 1)))
    axes.imshow(shades, cmap="Blues", aspect="auto", interpolation="nearest", vmin=-0.3 * top, vmax=top)
    axes.axvline(counts.shape[1] - 0.5, color=FAINT, linewidth=0.6)


def _bars(axes: Axes, sizes: list[int], classes: int, room: float) -> None:
    """Records of each client, in the rows of the table, with the number after each bar."""
    start = classes - 0.5 + 0.08 * room
    unit = 0.55 * room / max(1, max(sizes))
    axes.barh(range(len(sizes)), [n * unit for n in sizes], left=start, height=0.5, color=SOFT, zorder=2)
    axes.text(start, -0.75, "records", fontsize=9, color=INK)
    if len(sizes) <= MOST_CLIENTS:
        for row, size in enumerate(sizes):
            axes.text(start + size * unit, row, f" {size:,}", va="center", fontsize=8, color=INK)


def _class_axis(axes: Axes, names: tuple[str, ...], bars: float) -> None:
    axes.set_xlim(-0.5, len(names) - 0.5 + bars)
    step = max(1, -(-len(names) // MOST_CLASSES))
    shown = range(0, len(names), step)
    axes.set_xlabel("class", color=INK, x=len(names) / 2 / (len(names) + bars))
    if max(len(names[at]) for at in shown) <= 3:
        axes.set_xticks(list(shown), [names[at] for at in shown])
    else:
        slanted = [_short(names[at]) for at in shown]
        axes.set_xticks(list(shown), slanted, rotation=45, ha="right", rotation_mode="anchor")
    axes.tick_params(length=0, colors=INK, labelsize=9)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _client_axis(axes: Axes, names: list[str]) -> None:
    axes.set_ylim(len(names) - 0.5, -0.5)
    step = max(1, -(-len(names) // MOST_CLIENTS))
    shown = range(0, len(names), step)
    axes.set_yticks(list(shown), [_short(names[at]) for at in shown])


def _short(name: str) -> str:
    return name if len(name) <= 18 else f"{name[:17]}…"


def _caption(skew: Skew) -> str:
    empty = f" · {skew.empty_clients} without records" if skew.empty_clients else ""
    several = skew.labels_per_record
    labels = "" if several in (0, 1) else f" · {several:.1f} labels per record"
    return (
        f"{len(skew.clients)} clients · {skew.records:,} records{labels} · "
        f"{skew.mean_classes:.1f} classes per client{empty}\n"
        f"mean distance to the overall mix of labels {skew.mean_distance:.2f} "
        "(0 the same, 1 nothing in common)"
    )
