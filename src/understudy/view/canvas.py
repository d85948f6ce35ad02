"""What all pictures share: colours, an empty figure that needs no screen, and saving to a file."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from understudy.errors import UserError

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

# For annotations: matplotlib takes a second to import, so that waits until there is something to draw.
Axes: TypeAlias = "matplotlib.axes.Axes"
Figure: TypeAlias = "matplotlib.figure.Figure"

INK, SOFT, FAINT = "#22303c", "#667784", "#e3e7ea"
# Okabe and Ito's colours, which colour-blind people can tell apart; grey for the yellow, which is lost on white.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c8c8c")
DASHES = ("-", "--", ":", "-.")  # if there are more lines than colours
DOTS_PER_INCH, SCREEN_DOTS_PER_INCH = 200, 100


def empty_figure(width: float, height: float) -> Figure:
    """In inches."""
    from matplotlib import figure
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    empty = figure.Figure(figsize=(width, height))
    FigureCanvasAgg(empty)
    return empty


def showing_itself(figure: Figure) -> Figure:
    """A notebook shows it as the last value of a cell, also where pyplot was never imported."""

    def png() -> bytes:
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=SCREEN_DOTS_PER_INCH, facecolor="white", bbox_inches="tight")
        return buffer.getvalue()

    figure._repr_png_ = png  # type: ignore[attr-defined]
    return figure


def save_figure(figure: Figure, file: Path) -> Path:
    """The file's extension decides its format."""
    if file.suffix.lstrip(".").lower() not in figure.canvas.get_supported_filetypes():
        raise UserError(f"{file}: no picture can be written with that extension; use .png, .svg or .pdf.")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=DOTS_PER_INCH, facecolor="white")
    except OSError as refused:
        raise UserError(f"{file} cannot be written: {refused.strerror or refused}.") from None
    return file


def line_look(number: int) -> tuple[str, str]:
    """Colour and dashes of the line with this number."""
    turn, colour = divmod(number, len(PALETTE))
    return PALETTE[colour], DASHES[turn % len(DASHES)]
