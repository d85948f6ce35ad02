"""The synthetic images that left each client, for people to look at."""

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.data.splits.split import Split
from understudy.data.tiling import Layout, lay_out, paint
from understudy.errors import UserError
from understudy.federation.cohorts import in_order
from understudy.federation.message import labels_to_wire
from understudy.runs.compare import Row, compare, distinct_labels, read_config
from understudy.runs.folder import RunFolder
from understudy.runs.holdings import read_holdings
from understudy.runs.reported import problem_of
from understudy.view.canvas import INK, SOFT, Axes, Figure, empty_figure, save_figure
from understudy.view.numbers import size

WIDTH = 9.0  # inches; 1800 dots across when saved
NAMES, GAP, HEAD, TITLE = 0.95, 0.3, 0.68, 0.36  # inches: client names, between sheets, above a sheet, above all
FOOT, NARROWEST = 0.36, 3.6  # inches: below all; a sheet with few columns still has a caption
LEAST_WIDTH = 6.4  # inches, for the lines above and below all sheets
LETTER, LINE = 0.062, 0.15  # inches: width of a caption's letter, height of its line
MOST_NAMED = 30  # classes whose names are worth their room
ACROSS = 2  # sheets side by side; more go below
MOST_CLIENTS = 25
LARGEST_CELL = 0.62  # inches

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Sheet:
    """The newest synthetic sets of one run."""

    label: str
    problem: Problem
    sets: dict[str, Examples]
    clients: list[str]  # all of the run, including those that gave nothing
    often: str  # how often such sets were sent
    leak: str = ""  # what they give away, in words
    names: tuple[str, ...] = ()  # of classes, in order; empty: numbers

    @property
    def images(self) -> int:
        return sum(map(len, self.sets.values()))

    @property
    def nbytes(self) -> int:
        """As sent over the wire."""
        return sum(s.x.nbytes + labels_to_wire(s.y, self.problem.classes).nbytes for s in self.sets.values())

    @property
    def caption(self) -> str:
        sent = f"{self.images:,} images of {len(self.sets)} clients · {size(self.nbytes)}, {self.often}"
        return f"{sent} · {self.leak}" if self.leak else sent


def draw_sheet(folder: Path, file: Path, per_class: int = 4, title: str = "") -> Path:
    """Clients down, classes across, up to ``per_class`` images in each cell."""
    return save_figure(sheets_figure([folder], per_class, title), file)


def draw_sheets(folders: Sequence[Path], file: Path, per_class: int | None = None, title: str = "") -> Path:
    """The sheets of several runs side by side, with the same client in the same row.

    Without ``per_class`` there are four images per cell, or one if they are so small that it needs the room.
    """
    return save_figure(sheets_figure(folders, per_class, title), file)


# ---- reading


def read_sheets(folders: Sequence[Path]) -> list[Sheet]:
    rows = compare(folders)
    return [_sheet(row, label) for row, label in zip(rows, distinct_labels(rows), strict=True)]


def _sheet(row: Row, label: str) -> Sheet:
    folder = row.folder
    run = RunFolder(folder)
    sets = run.synthetic()
    if not sets:
        raise UserError(f"{folder} ({label}) holds no synthetic images; {_instead(folder)}")
    problem = problem_of(folder, read_config(folder))
    for client, examples in sets.items():
        problem.check(examples, f"{folder}, synthetic/{client}.npz")
    split = folder / "split.json"
    clients = [*Split.load(split).clients] if split.exists() else in_order(sets)
    everyone = [*dict.fromkeys([*clients, *sets])]
    return Sheet(label, problem, sets, everyone, _often(run, sets), _leak(row), _class_names(folder, problem))


def _class_names(folder: Path, problem: Problem) -> tuple[str, ...]:
    """None if there are many classes, or if the run does not know a name for each."""
    held, data = read_holdings(folder), read_config(folder).get("data")
    given = data.get("labels") if isinstance(data, dict) else None  # where records are at the sites
    names = held.classes if held is not None else tuple(map(str, given if isinstance(given, list) else ()))
    return names if len(names) == problem.classes <= MOST_NAMED else ()


def _leak(row: Row) -> str:
    if row.leak is not None:
        return f"{100 * row.leak.caught:.1f} % of the records recognised (by chance {100 * row.leak.null:.1f} %)"
    return f"ε {row.epsilon:.3g}" if row.epsilon is not None else "not audited"


def _instead(folder: Path) -> str:
    added = [one.get("name") for one in read_config(folder).get("with") or []]
    if "fedcog" in added:
        return "those of fedcog never leave a client: understudy sheet DIR -o FILE --generated makes them again."
    return "its clients sent none. They do with feddm, fedlap or fedssyn, if a class has enough records."


def _often(run: RunFolder, sent: Iterable[str]) -> str:
    """As recorded in the ledger, over clients that sent any."""
    if not run.keeps_a_ledger:
        return "not yet in the ledger"
    ledger = run.ledger()["clients"]
    times = {
        max((line["releases"] for line in ledger.get(client, []) if line["kind"] == "examples"), default=1)
        for client in sent
    }
    if times == {1}:
        return "sent once"
    return f"{'sent' if len(times) == 1 else 'sent up to'} {max(times)} times"


# ---- drawing


def sheets_figure(folders: Sequence[Path], per_class: int | None = None, title: str = "") -> Figure:
    if not folders:
        raise UserError("No run folder was given; name at least one that holds synthetic images.")
    return figure_of(read_sheets(folders), per_class, title)


def figure_of(sheets: Sequence[Sheet], per_class: int | None = None, title: str = "") -> Figure:
    if per_class is not None and per_class < 1:
        raise UserError(f"per_class is {per_class}; show at least one image per class.")
    each = per_class or _fitting(sheets)
    everyone = list(dict.fromkeys(client for sheet in sheets for client in sheet.clients))
    shown = everyone[:MOST_CLIENTS]
    layouts = [lay_out(sheet.sets, shown, sheet.problem, each) for sheet in sheets]
    captions = _captions(sheets, layouts)
    figure, places = _places(layouts, [sheet.problem for sheet in sheets], max(map(len, captions)))
    for number, (sheet, layout, place) in enumerate(zip(sheets, layouts, places, strict=True)):
        names = [_named(name) for name in shown] if number % ACROSS == 0 else []
        _draw(figure.add_axes(place), sheet, layout, names, captions[number])
    _write_around(figure, title, layouts, len(everyone))
    return figure


def _fitting(sheets: Sequence[Sheet]) -> int:
    return 4 if len(sheets) == 1 or max(sheet.problem.shape[-1] for sheet in sheets) >= 16 else 1


def _captions(sheets: Sequence[Sheet], layouts: Sequence[Layout]) -> list[list[str]]:
    """Each in as many lines as fit above its sheet; one sheet has the width of the page."""
    if len(sheets) == 1:
        wide = LEAST_WIDTH - NAMES
    else:
        wide = max(NARROWEST, *(min(one.columns * LARGEST_CELL, _room(ACROSS)) for one in layouts))
    return [textwrap.wrap(sheet.caption, int(wide / LETTER)) for sheet in sheets]


def _room(across: int) -> float:
    return (WIDTH - NAMES - GAP * across) / across


def _places(layouts: Sequence[Layout], problems: Sequence[Problem], lines: int) -> tuple[Figure, list[Box]]:
    """An empty figure of the size needed, and where each sheet goes below its caption of so many ``lines``: left,
    bottom, width, height."""
    across = min(len(layouts), ACROSS)
    room, head = _room(across), HEAD + (lines - 1) * LINE
    shapes = [problem.shape[1] / problem.shape[2] for problem in problems]  # height of a cell over its width
    # All rows have the same height, so that a client's row continues in the next sheet.
    cell = min(min(room / one.columns, LARGEST_CELL) * tall for one, tall in zip(layouts, shapes, strict=True))
    widths = [one.columns * cell / tall for one, tall in zip(layouts, shapes, strict=True)]
    high = cell * layouts[0].rows
    step = max(*widths, NARROWEST) + GAP
    width = max(NAMES + across * step, LEAST_WIDTH)
    height = TITLE + math.ceil(len(layouts) / across) * (high + head) + FOOT
    places = []
    for number, wide in enumerate(widths):
        row, column = divmod(number, across)
        bottom = height - TITLE - (row + 1) * (high + head)
        places.append(((NAMES + column * step) / width, bottom / height, wide / width, high / height))
    return empty_figure(width, height), places


def _draw(axes: Axes, sheet: Sheet, layout: Layout, names: list[str], caption: Sequence[str]) -> None:
    extent = (0, layout.columns, layout.rows, 0)
    axes.imshow(paint(layout, sheet.problem), extent=extent, aspect="auto", interpolation="antialiased")
    axes.tick_params(length=0, colors=SOFT, labelsize=8, pad=2, top=False, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)
    axes.set_xticks([])
    if layout.by_class:
        heads = [_class_named(sheet, c, layout) for c in range(layout.columns)]
        axes.set_xticks([c + 0.5 for c in range(layout.columns)], heads)
    else:
        _number(axes, layout)
    axes.set_yticks([row + 0.5 for row in range(len(names))], names, color=INK)
    over = axes.annotate
    place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "annotation_clip": False}
    up = 72 * LINE * (len(caption) - 1)
    over(sheet.label, (0, 1), (0, 32 + up), fontsize=10.5, fontweight="bold", color=INK, **place)
    over("\n".join(caption), (0, 1), (0, 19), fontsize=8, color=SOFT, **place)


def _class_named(sheet: Sheet, label: int, layout: Layout) -> str:
    """As much of its name as fits over a column."""
    if label >= len(sheet.names):
        return str(label)
    most = max(3, int(min(LARGEST_CELL, _room(1) / layout.columns) / LETTER))
    name = sheet.names[label]
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _number(axes: Axes, layout: Layout) -> None:
    """The class in the corner of each cell, if columns do not show it."""
    for cell in layout.cells:
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
        spot = (cell.column + 0.1, cell.row + 0.1)
        axes.text(*spot, str(cell.label), fontsize=6.5, color=INK, va="top", bbox=box)


def _write_around(figure: Figure, title: str, layouts: Sequence[Layout], everyone: int) -> None:
    width, height = figure.get_size_inches()
    said = title or "Synthetic images that left the clients, newest sets"
    figure.text(0.12 / width, 1 - 0.12 / height, said, fontsize=12, fontweight="bold", color=INK, va="top")
    figure.text(0.12 / width, 0.1 / height, _note(layouts, everyone), fontsize=8, color=SOFT, va="bottom")


def _note(layouts: Sequence[Layout], everyone: int) -> str:
    first = layouts[0]
    each = "one image" if first.per_cell == 1 else f"up to {first.per_cell} images"
    some = f"; the first {first.rows} of {everyone} clients" if first.rows < everyone else ""
    if all(layout.by_class for layout in layouts):
        return f"One row per client, one column per class, {each} per cell; pale where a client made none{some}."
    return f"One row per client, {each} of each of its first classes, the class in the corner{some}."


def _named(client: str) -> str:
    return client if len(client) <= 12 else f"{client[:11]}…"
