"""A study's synthetic images, drawn: clients down, classes across."""

from understudy.data.tiling import lay_out, paint
from understudy.papers.study import Mosaic
from understudy.view.canvas import INK, SOFT, Figure, empty_figure

A_CELL = 4  # images of a class in a mosaic
LEAST_MARGIN, A_LETTER = 0.095, 0.0077  # of the figure's width: room for the names of sets


def mosaic_figure(mosaic: Mosaic) -> Figure:
    layout = lay_out(mosaic.sets, list(mosaic.sets), mosaic.problem, A_CELL)
    height = 0.9 + 0.82 * layout.rows
    figure = empty_figure(9.0, height)
    axes = figure.subplots()
    axes.imshow(paint(layout, mosaic.problem), extent=(0, layout.columns, layout.rows, 0), aspect="auto")
    classes = [mosaic.names[c] if c < len(mosaic.names) else str(c) for c in range(layout.columns)]
    axes.set_xticks([column + 0.5 for column in range(layout.columns)], classes)
    axes.set_yticks([row + 0.5 for row in range(layout.rows)], list(mosaic.sets), color=INK)
    axes.tick_params(length=0, colors=SOFT, labelsize=8.5, top=False, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)
    figure.text(0.013, 1 - 0.1 / height, mosaic.title, fontsize=11, fontweight="bold", color=INK, va="top")
    left = max(LEAST_MARGIN, 0.02 + A_LETTER * max(map(len, mosaic.sets)))
    figure.subplots_adjust(left=left, right=0.99, bottom=0.1 / height, top=1 - 0.7 / height)
    return figure
