"""What a FedCOG client generates, for people to look at: one column per class."""

import math
import textwrap
from pathlib import Path

import torch
from torch.nn import functional as F

from understudy.data.examples import Examples
from understudy.data.tiling import Layout, lay_out, paint
from understudy.errors import UserError
from understudy.runs.regenerated import Generated
from understudy.view.canvas import INK, SOFT, Axes, Figure, empty_figure, save_figure

WIDTH, LARGEST_CELL, NARROWEST = 9.0, 1.4, 5.0  # inches
SIDE, HEAD, FOOT = 0.12, 1.2, 0.12  # inches: left and right, above the images, below them
LETTER = 0.062  # inches, of the caption


def draw_generated(shown: Generated, file: Path, per_class: int = 16) -> Path:
    """Up to ``per_class`` images of each class."""
    if per_class < 1:
        raise UserError(f"per_class is {per_class}; show at least one image per class.")
    return save_figure(generated_figure(shown, per_class), file)


def generated_figure(shown: Generated, per_class: int = 16) -> Figure:
    layout = lay_out({shown.client: shown.examples}, [shown.client], shown.problem, per_class)
    tall = shown.problem.shape[1] / shown.problem.shape[2]  # height of a cell over its width
    cell = min((WIDTH - 2 * SIDE) / layout.columns, LARGEST_CELL)
    width = max(cell * layout.columns + 2 * SIDE, NARROWEST)
    height = HEAD + 2 * cell * tall + FOOT
    figure = empty_figure(width, height)
    means = lay_out({shown.client: class_means(shown)}, [shown.client], shown.problem, 1)
    across, down = cell * layout.columns / width, cell * tall / height
    _draw(figure.add_axes((SIDE / width, FOOT / height + down, across, down)), shown, layout)
    _paint(figure.add_axes((SIDE / width, FOOT / height, across, down)), shown, means)
    title = f"{shown.label}: what {shown.client} generates for round {shown.round}"
    figure.text(SIDE / width, 1 - 0.12 / height, title, fontsize=12, fontweight="bold", color=INK, va="top")
    lines = textwrap.fill(caption(shown, layout), math.floor((width - 2 * SIDE) / LETTER))
    figure.text(SIDE / width, 1 - 0.36 / height, lines, fontsize=8, color=SOFT, va="top", linespacing=1.3)
    return figure


def caption(shown: Generated, layout: Layout) -> str:
    """What was made from what, and how the models classify it."""
    answers = "labels" if shown.problem.multilabel else "images"
    said = f"{len(shown.examples)} images from {shown.source}, none of which is kept or sent."
    said += f" The global model gives {shown.obeyed:.0%} of the {answers} the requested answer"
    if shown.disputed is not None:
        said += f", and the client's last model disagrees with it on {shown.disputed:.0%}"
    each = "one" if layout.per_cell == 1 else f"up to {layout.per_cell}"
    return f"{said}. Shown: {each} per class as pixels; below, the mean of all images of the class, contrast stretched."


def class_means(shown: Generated) -> Examples:
    """One image per class: the mean of its images, scaled from its darkest to its lightest spot. It shows what they
    share, while each alone is mostly the noise it started from."""
    x, y = shown.examples.x, shown.examples.y
    labels = [label for label, made in enumerate(shown.examples.label_counts(shown.problem.classes)) if made]
    means = torch.stack([x[y[:, label] > 0 if y.ndim == 2 else y == label].mean(0) for label in labels])
    dark, light = means.flatten(1).amin(1), means.flatten(1).amax(1)
    spread = (light - dark).clamp(min=1e-12)
    pixels = (means - dark.view(-1, 1, 1, 1)) / spread.view(-1, 1, 1, 1) * 255
    asked = F.one_hot(torch.tensor(labels), shown.problem.classes).to(torch.float32)
    return Examples(pixels.round().to(torch.uint8), asked if y.ndim == 2 else torch.tensor(labels))


def _paint(axes: Axes, shown: Generated, layout: Layout) -> None:
    extent = (0, layout.columns, layout.rows, 0)
    axes.imshow(paint(layout, shown.problem), extent=extent, aspect="auto", interpolation="antialiased")
    axes.spines[:].set_visible(False)
    axes.set_xticks([])
    axes.set_yticks([])


def _draw(axes: Axes, shown: Generated, layout: Layout) -> None:
    _paint(axes, shown, layout)
    axes.tick_params(length=0, colors=SOFT, labelsize=7, pad=2, top=False, labeltop=True, labelbottom=False)
    made, held = shown.examples.label_counts(shown.problem.classes).tolist(), shown.held.tolist()
    labels = range(layout.columns) if layout.by_class else [cell.label for cell in layout.cells]
    heads = [f"class {label}\nmade {made[label]}\nhas {held[label]}" for label in labels]
    axes.set_xticks([column + 0.5 for column in range(len(heads))], heads)
