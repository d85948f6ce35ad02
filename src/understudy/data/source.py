"""One line of `understudy data list`: a data set that can be loaded by name."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from understudy.data.dataset import Dataset
from understudy.data.published import Progress


@dataclass(frozen=True)
class Source:
    name: str
    shape: tuple[int, ...]
    classes: int
    records: tuple[int, int]  # training, test
    origin: str
    read: Callable[[Path | None], Dataset]
    here: Callable[[Path | None], bool]
    get: Callable[[Path | None, Progress | None], Path]  # returns the folder where it is afterwards
