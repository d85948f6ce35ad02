"""Shared images, each beside the record that it is nearest to."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from understudy.audits.nearest_pairs import NearPair
from understudy.data.problem import Problem
from understudy.data.tiling import Tile
from understudy.view.canvas import INK, SOFT, empty_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACROSS, BETWEEN = 5, 0.1  # pairs in a row; inches between rows
SIDE, GAP, HEAD, TEXT = 0.86, 0.26, 0.62, 0.34  # inches


def draw_pairs(pairs: Sequence[NearPair], problem: Problem, file: Path, title: str = "") -> Path | None:
    """None if there are none, or the records are no images."""
    if not pairs or len(problem.shape) != 3 or problem.shape[0] not in (1, 3):
        return None
    return save_figure(_figure(pairs, problem, title), file)


def _figure(pairs: Sequence[NearPair], problem: Problem, title: str) -> "Figure":
    columns = min(ACROSS, len(pairs))
    rows = -(-len(pairs) // columns)
    width = max(columns * (2 * SIDE + GAP) + GAP, 5.2)
    height = HEAD + rows * (SIDE + TEXT) + rows * BETWEEN
    figure = empty_figure(width, height)
    top = title or f"The {len(pairs)} shared images that are nearest to a record"
    figure.text(GAP / width, 1 - 0.28 / height, top, color=INK, fontsize=10, va="center")
    figure.text(
        GAP / width, 1 - 0.46 / height, "left: what left; right: the record", color=SOFT, fontsize=8, va="center"
    )
    for place, pair in enumerate(pairs):
        row, column = divmod(place, columns)
        left = GAP + column * (2 * SIDE + GAP)
        bottom = height - HEAD - row * (SIDE + TEXT + BETWEEN) - SIDE
        for side, image in enumerate((pair.image, pair.record)):
            axes = figure.add_axes(
                ((left + side * SIDE) / width, bottom / height, 0.97 * SIDE / width, 0.97 * SIDE / height)
            )
            axes.imshow(_tile(image, problem), interpolation="nearest")
            axes.set_axis_off()
        words = f"{pair.client}, class {pair.label}\n{_how_near(pair)}" if pair.label is not None else pair.client
        figure.text(left / width, (bottom - 0.05) / height, words, color=SOFT, fontsize=6.5, va="top")
    return figure


def _how_near(pair: NearPair) -> str:
    if pair.copy:
        return "a near-copy"
    return f"nearer than {100 * (1 - pair.quantile):.0f} % of held-out"


def _tile(image: Tensor, problem: Problem) -> Tile:
    return np.broadcast_to(image.numpy(), (3, *problem.shape[1:])).transpose(1, 2, 0)
