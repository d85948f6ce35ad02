"""Data sets by name."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from understudy.complaints import unknown_name
from understudy.data import cifar, digits, mnist
from understudy.data.dataset import Dataset
from understudy.data.own import Scaling, is_path, read_own
from understudy.data.published import Progress
from understudy.data.shapes import ShapesSettings, read_shapes
from understudy.data.source import Source
from understudy.errors import UserError


def _drawn_anew(_folder: Path | None, _progress: Progress | None) -> Path:
    raise UserError("shapes is drawn by code whenever it is loaded; there is nothing to fetch.")


DRAWN = Source(
    "shapes",
    (1, 16, 16),
    3,
    (4152, 456),
    "drawn by code, on the grid of dSprites",
    read=lambda _folder: read_shapes(),
    here=lambda _folder: True,
    get=_drawn_anew,
)
SOURCES = {source.name: source for source in (*digits.SOURCES, *mnist.SOURCES, *cifar.SOURCES, DRAWN)}


@dataclass(frozen=True)
class Listed:
    """What `understudy data list` says of a data set."""

    name: str
    shape: tuple[int, ...]
    classes: int
    records: tuple[int, int]  # training, test
    origin: str
    here: bool

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def names(folder: Path | None = None) -> list[Listed]:
    return [Listed(s.name, s.shape, s.classes, s.records, s.origin, s.here(folder)) for s in SOURCES.values()]


def source(name: str) -> Source:
    if name in SOURCES:
        return SOURCES[name]
    raise unknown_name("data set", name, SOURCES, ", or the path of an .npz file or of a folder of images by class")


def load(name: str, *, folder: Path | None = None, **options: Any) -> Dataset:
    """The data set of that name, or from that path. Nothing is downloaded: that is what `get` does.

    Options are those of `shapes` (ShapesSettings), or of own data: classes, mean, std, test.
    """
    if name == "shapes":
        return read_shapes(_shapes_settings(options))
    if is_path(name) and name not in SOURCES:
        test = options.pop("test", None)
        scaling = {key: options.pop(key) for key in ("classes", "mean", "std") if key in options}
        _refuse(name, options, "classes, mean, std, test")
        return read_own(name, Scaling(**scaling), test)
    found = source(name)
    _refuse(name, options, "none")
    return found.read(folder)


def get(name: str, folder: Path | None = None, progress: Progress | None = None) -> Path:
    """Fetches the files of a data set from its home, checked; returns the folder where they lie."""
    return source(name).get(folder, progress)


def _shapes_settings(options: dict[str, Any]) -> ShapesSettings:
    try:
        return ShapesSettings(**options)
    except ValidationError as wrong:
        first = wrong.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise UserError(f"shapes: the option '{field}' is wrong: {first['msg']}.") from None


def _refuse(name: str, options: dict[str, Any], known: str) -> None:
    if options:
        raise UserError(f"{name} has no option '{next(iter(options))}'; its options: {known}.")
