"""Synthetic images laid out as tiles, in one picture: clients down, classes across."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError

Tile = NDArray[np.uint8]  # (height, width, 3)
MOST_CLASSES = 20  # with one column each
SLOTS = 12  # cells per client if there are more classes than that
BLANK, PAPER = 244, 255
FINE = 72  # least dots per tile, so that small images keep sharp squares


@dataclass(frozen=True)
class Cell:
    row: int
    column: int
    label: int  # the class
    tiles: list[Tile]


@dataclass(frozen=True)
class Layout:
    cells: list[Cell]
    rows: int
    columns: int
    by_class: bool  # a column is a class; otherwise a client's classes follow one another
    per_cell: int

    @property
    def side(self) -> int:
        """Tiles across and down a cell."""
        return math.ceil(math.sqrt(self.per_cell))


def drawable(problem: Problem) -> bool:
    """Whether its records are grey or colour images."""
    return len(problem.shape) == 3 and problem.shape[0] in (1, 3)


def lay_out(sets: Mapping[str, Examples], clients: Sequence[str], problem: Problem, per_cell: int) -> Layout:
    """One row per client in ``clients``, including those that gave nothing."""
    if not drawable(problem):
        raise UserError(f"The records have shape {problem.shape}, which is not a grey or colour image to draw.")
    by_class = problem.classes <= MOST_CLASSES
    cells = [
        Cell(row, label if by_class else place, label, tiles(sets[client], problem, label, per_cell))
        for row, client in enumerate(clients)
        if client in sets
        for place, label in enumerate(_labels(sets[client], problem))
        if by_class or place < SLOTS
    ]
    return Layout(cells, len(clients), problem.classes if by_class else SLOTS, by_class, per_cell)


def _labels(examples: Examples, problem: Problem) -> list[int]:
    counts: list[int] = examples.label_counts(problem.classes).tolist()
    return [label for label, count in enumerate(counts) if count]


def tiles(examples: Examples, problem: Problem, label: int, most: int) -> list[Tile]:
    """The first images with the label, as pixels with three channels."""
    bears = examples.y[:, label] > 0 if examples.multilabel else examples.y == label
    chosen = problem.unscale(examples.x[torch.nonzero(bears).flatten()[:most]])
    return [np.broadcast_to(image, (3, *problem.shape[1:])).transpose(1, 2, 0) for image in chosen.numpy()]


def paint(layout: Layout, problem: Problem) -> Tile:
    """One picture of all cells; if a client made nothing of a class, the cell is a pale blank."""
    height, width = problem.shape[1:]
    zoom = math.ceil(FINE / layout.side / max(height, width))
    high, wide = height * zoom, width * zoom
    seam, alley = max(2, FINE // 24), max(6, FINE // 8)  # between tiles, between cells
    down, across = (layout.side * (side + seam) - seam + alley for side in (high, wide))
    canvas = np.full((layout.rows * down, layout.columns * across, 3), PAPER, np.uint8)
    if layout.by_class:
        for row in range(layout.rows):
            for column in range(layout.columns):
                _cell(canvas, row * down, column * across, down - alley, across - alley, alley // 2)[:] = BLANK
    for cell in layout.cells:
        for number, tile in enumerate(cell.tiles):
            i, j = divmod(number, layout.side)
            top, left = cell.row * down + i * (high + seam), cell.column * across + j * (wide + seam)
            large = tile.repeat(zoom, axis=0).repeat(zoom, axis=1)
            _cell(canvas, top, left, high, wide, alley // 2)[:] = large
    return canvas


def _cell(canvas: Tile, top: int, left: int, high: int, wide: int, margin: int) -> Tile:
    """A view of the canvas."""
    return canvas[top + margin : top + margin + high, left + margin : left + margin + wide]
