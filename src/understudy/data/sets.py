"""Data sets by name."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.base_settings import Settings
from understudy.complaints import checked, unknown_name
from understudy.data import cifar, digits, flair, mnist
from understudy.data.canvases import CanvasesSettings, read_canvases
from understudy.data.dataset import Dataset, Source
from understudy.data.flair import FlairSettings, read_flair
from understudy.data.own import Reading, Scaling, is_path, read_own
from understudy.data.shapes import ShapesSettings, read_shapes
from understudy.errors import UserError

SETTINGS: dict[str, type[Settings]] = {"shapes": ShapesSettings, "canvases": CanvasesSettings, "flair": FlairSettings}
READERS: dict[str, Callable[[Any, Path | None], Dataset]] = {
    "shapes": lambda settings, _folder: read_shapes(settings),
    "canvases": lambda settings, _folder: read_canvases(settings),
    "flair": lambda settings, folder: read_flair(folder, settings),
}
NATURAL_USERS = ("canvases", "flair")  # these tell whose record each is


def _drawn(name: str, shape: tuple[int, ...], classes: int, records: tuple[int, int], origin: str) -> Source:
    def get(_folder: Path | None) -> Path:
        raise UserError(f"{name} is drawn by code whenever it is loaded; there is nothing to fetch.")

    return Source(name, shape, classes, records, origin, lambda _folder: load(name), lambda _folder: True, get)


DRAWN = (
    _drawn("shapes", (1, 16, 16), 3, (4152, 456), "drawn by code, on the grid of dSprites"),
    _drawn("canvases", (1, 28, 28), 10, (2000, 500), "drawn by code, several digits of mnist-5k on one image"),
)
SOURCES = {source.name: source for source in (*digits.SOURCES, *mnist.SOURCES, *cifar.SOURCES, flair.SOURCE, *DRAWN)}


@dataclass(frozen=True)
class Listed:
    """What `understudy data list` tells about a data set."""

    name: str
    shape: tuple[int, ...]
    classes: int
    records: tuple[int, int]  # training, test
    origin: str
    here: bool


def names(folder: Path | None = None) -> list[Listed]:
    return [Listed(s.name, s.shape, s.classes, s.records, s.origin, s.here(folder)) for s in SOURCES.values()]


def source(name: str) -> Source:
    if name in SOURCES:
        return SOURCES[name]
    raise unknown_name(
        "data set", name, SOURCES, ", or the path of an .npz, .parquet or .csv file or of a folder of images by class"
    )


def load(name: str, *, folder: Path | None = None, **options: Any) -> Dataset:
    """The data set of that name, or from that path. Nothing is downloaded; use `get` for that.

    Options are those of `shapes`, `canvases` and `flair` (their settings), or of your own data: classes, labels,
    shape, mean, std, test.
    """
    if name in SETTINGS:
        return READERS[name](checked(SETTINGS[name], options, name), folder)
    if is_path(name) and name not in SOURCES:
        test = options.pop("test", None)
        scaling = {key: options.pop(key) for key in ("classes", "mean", "std") if key in options}
        labels, shape = (tuple(options.pop(key, None) or ()) for key in ("labels", "shape"))
        _refuse(name, options, "classes, labels, shape, mean, std, test")
        return read_own(name, Scaling(**scaling), test, labels=labels, reading=Reading(shape or None))
    found = source(name)
    _refuse(name, options, "none")
    return found.read(folder)


def get(name: str, folder: Path | None = None) -> Path:
    """Downloads and checks the files of a data set; returns their folder."""
    return source(name).get(folder)


def _refuse(name: str, options: dict[str, Any], known: str) -> None:
    if options:
        raise UserError(f"{name} has no option '{next(iter(options))}'; its options: {known}.")
