"""Your own data: .npz, Parquet, or a folder of images by class; to be split, or one source per site."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from understudy.data.dataset import Dataset
from understudy.data.examples import Examples, NpzArrays, read_npz
from understudy.data.framing import AS_IT_IS, Framing
from understudy.data.images import class_names, read_images
from understudy.data.parquet import holds_parquet, read_parquet, read_users
from understudy.data.problem import Problem
from understudy.errors import UserError


@dataclass(frozen=True)
class Scaling:
    """What your own files do not tell."""

    classes: int | None = None  # None: as many as the labels show
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def check(self, channels: int, who: str) -> None:
        for what, values in (("mean", self.mean), ("std", self.std)):
            if values and len(values) != channels:
                raise UserError(f"{who}: '{what}' has {len(values)} numbers for {channels} channels.")
        if bool(self.mean) != bool(self.std) or any(not value > 0 for value in self.std):
            raise UserError(f"{who}: give both 'mean' and 'std', one number per channel, and every std above 0.")


@dataclass(frozen=True)
class Reading:
    """How files become records."""

    shape: tuple[int, ...] | None = None  # of records stored flat in a table
    frame: Framing = AS_IT_IS  # what pictures become


PLAINLY = Reading()


def is_path(name: str) -> bool:
    return name.endswith((".npz", ".parquet")) or "/" in name or "\\" in name or Path(name).is_dir()


def problem_of(parts: Sequence[Examples], scaling: Scaling, who: str) -> Problem:
    """Shapes and classes from a user's own records, where the config does not give them."""
    some = next((part for part in parts if len(part)), None)
    if some is None:
        raise UserError(f"{who} holds no records.")
    classes = scaling.classes or (some.y.shape[1] if some.multilabel else _classes_seen(parts, who))
    shape = tuple(some.x.shape[1:])
    scaling.check(shape[0], who)
    return Problem(shape, max(classes, 2), some.multilabel, scaling.mean, scaling.std)


def _classes_seen(parts: Sequence[Examples], who: str) -> int:
    labels = [part.y for part in parts if len(part) and not part.multilabel]
    first, last = min(int(y.min()) for y in labels), max(int(y.max()) for y in labels)
    if first > 0:
        raise UserError(
            f"{who}: labels run from {first} to {last}, but classes are numbered from 0: subtract {first}, "
            f"or give the number of classes, at least {last + 1}, if the first ones have no records."
        )
    return 1 + last


def _read_npz(path: Path) -> NpzArrays:
    if path.suffix != ".npz" and path.exists():
        raise UserError(f"{path} is neither a folder of images by class nor an .npz or .parquet file.")
    return read_npz(path)


def _users(arrays: NpzArrays, path: Path) -> Tensor | None:
    if "users" not in arrays:
        return None
    users = arrays["users"]
    if not np.issubdtype(users.dtype, np.integer):
        raise UserError(f"{path}: 'users' must be whole numbers, one per record, not {users.dtype}.")
    return torch.from_numpy(users.astype(np.int64))


def read_own(
    name: str,
    scaling: Scaling,
    test: str | None = None,
    *,
    labels: tuple[str, ...] = (),
    reading: Reading = PLAINLY,
) -> Dataset:
    """One source, to be split; ``test`` names a second one to score on. ``labels`` are the class names in order."""
    path = Path(name).expanduser()
    kept_at = None if test is None else Path(test).expanduser()
    if path.is_dir() and kept_at is None and (path / "train").is_dir() and (path / "test").is_dir():
        path, kept_at = path / "train", path / "test"
    names = labels
    if not names and is_folder_of_images(path):
        names = _classes_in([path] if kept_at is None else [path, kept_at])
    kept_back = None if kept_at is None else read_source(kept_at, names, reading)
    if path.is_dir() or holds_parquet(path):
        train, users = read_source(path, names, reading), read_users(path) if holds_parquet(path) else None
    else:
        train, kept_back, users = _from_npz(path, kept_back)
    if kept_at is not None and kept_back is not None:
        train, kept_back = _in_one_mode([path, kept_at], [train, kept_back])
    known = Scaling(len(names) or scaling.classes, scaling.mean, scaling.std)
    problem = problem_of([train] if kept_back is None else [train, kept_back], known, name)
    return Dataset(name, problem, train, kept_back, users=users, label_names=names)


def _from_npz(path: Path, kept_back: Examples | None) -> tuple[Examples, Examples | None, Tensor | None]:
    """(records, test set, users); a test set named in the config takes precedence over one inside the file."""
    arrays = _read_npz(path)
    if kept_back is None and ("x_test" in arrays or "y_test" in arrays):
        kept_back = Examples.from_npz(arrays, path, "x_test", "y_test")
    return Examples.from_npz(arrays, path), kept_back, _users(arrays, path)


def is_folder_of_images(path: Path) -> bool:
    return path.is_dir() and not holds_parquet(path)


def _classes_in(sources: Sequence[Path]) -> tuple[str, ...]:
    return tuple(sorted({name for source in sources if is_folder_of_images(source) for name in class_names(source)}))


def _in_one_mode(sources: Sequence[Path], parts: Sequence[Examples]) -> list[Examples]:
    """If one folder of images is in colour, so are the others."""
    colour = any(is_folder_of_images(path) and part.x.shape[1] == 3 for path, part in zip(sources, parts, strict=True))
    return [
        replace(part, x=part.x.expand(-1, 3, -1, -1).contiguous())
        if colour and is_folder_of_images(path) and part.x.shape[1] == 1
        else part
        for path, part in zip(sources, parts, strict=True)
    ]


def read_source(path: Path, names: Sequence[str], reading: Reading = PLAINLY) -> Examples:
    """All records of a file or folder; ``names`` are the class names in order."""
    if holds_parquet(path):
        return read_parquet(path, names, reading.shape, reading.frame)
    if not path.is_dir():
        return Examples.from_npz(_read_npz(path), path)
    unknown = set(class_names(path)) - set(names) if names else set()
    if unknown:
        raise UserError(f"{path} has a folder '{min(unknown)}', which is not one of the classes: {', '.join(names)}.")
    found = read_images(path, names or class_names(path), reading.frame)
    if found is None:
        raise UserError(f"{path} holds no PNG or JPEG images in one folder per class, and no .parquet file.")
    return found


@dataclass(frozen=True)
class OwnSites:
    sites: Mapping[str, Examples]
    test: Examples | None
    label_names: tuple[str, ...]


def read_sites(
    sites: Mapping[str, str],
    test: str | None,
    *,
    labels: tuple[str, ...] = (),
    reading: Reading = PLAINLY,
) -> OwnSites:
    """One source per site; without ``labels``, the classes are all the folder names found at any site."""
    sources = {site: Path(source).expanduser() for site, source in sites.items()}
    for site, path in sources.items():
        if not path.exists():
            raise UserError(f"data.sites.{site}: there is no file or folder {path}.")
    kept_at = None if test is None else Path(test).expanduser()
    every = [*sources.values()] if kept_at is None else [*sources.values(), kept_at]
    names = labels or _classes_in(every)
    if names and not labels and not all(is_folder_of_images(path) for path in every):
        raise UserError(
            "data.sites: use folders of images for every site and the test set, or for none; "
            "or name the classes in order with data.labels."
        )
    parts = _in_one_mode(every, [read_source(path, names, reading) for path in every])
    return OwnSites(dict(zip(sources, parts, strict=False)), None if kept_at is None else parts[-1], names)
