"""Your own data: .npz, a table, or a folder of images by class; to be split, or one source per site."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.data.dataset import Dataset
from understudy.data.examples import Examples, NpzArrays, read_npz
from understudy.data.framing import AS_IT_IS, Framing
from understudy.data.images import class_names, image_files, read_images
from understudy.data.kinds import RecordKind
from understudy.data.persons import codes
from understudy.data.problem import Categories, Problem
from understudy.data.resize import IMAGES_AT_ONCE
from understudy.data.room import Room
from understudy.data.spread import by_constants
from understudy.data.table_files import ENDINGS, holds_table
from understudy.data.tables import (
    AS_FOUND,
    TableRules,
    category_places,
    check_columns,
    in_order,
    read_table,
    read_users,
    words_in,
)
from understudy.errors import UserError


@dataclass(frozen=True)
class Scaling:
    """What your own files do not tell."""

    classes: int | None = None  # None: as many as the labels show
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    tokens: int | None = None  # how many token ids; None: as many as the records show
    categories: Categories = ()

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
    rules: TableRules = AS_FOUND  # what a table's columns mean
    room: Room | None = None  # where large images are kept
    kind: RecordKind | None = None  # what a record is; None: guessed


PLAINLY = Reading()
PERSON = "person"  # in .npz


def is_path(name: str) -> bool:
    return name.endswith((".npz", *ENDINGS)) or "/" in name or "\\" in name or Path(name).is_dir()


def problem_of(parts: Sequence[Examples], scaling: Scaling, who: str) -> Problem:
    """Shapes and classes from a user's own records, where the config does not give them."""
    some = next((part for part in parts if len(part)), None)
    if some is None:
        raise UserError(f"{who} holds no records.")
    classes = scaling.classes or (some.y.shape[1] if some.multilabel else _classes_seen(parts, who))
    shape, tokens = tuple(some.x.shape[1:]), _tokens(parts, scaling, who)
    scaling.check(shape[0], who)
    return Problem(
        shape,
        max(classes, 2),
        some.multilabel,
        scaling.mean,
        scaling.std,
        tokens,
        floats=some.x.dtype == torch.float32,
        categories=_categories(shape, scaling, who),
    )


def _tokens(parts: Sequence[Examples], scaling: Scaling, who: str) -> int:
    """How many token ids there are; 0: records are numbers."""
    ids = [part.x for part in parts if len(part) and part.x.dtype == torch.int32]
    if ids and scaling.mean:
        raise UserError(f"{who}: token ids are not scaled; leave mean and std out.")
    if scaling.tokens is not None and not ids:
        raise UserError(f"{who}: data.tokens counts token ids, but the records are numbers; write data.kind: tokens.")
    return scaling.tokens or (1 + max(int(x.max()) for x in ids) if ids else 0)


def _categories(shape: tuple[int, ...], scaling: Scaling, who: str) -> Categories:
    free = 0
    for first, words in scaling.categories:
        if len(shape) != 1 or first < free or words < 1 or first + words > shape[0]:
            raise UserError(
                f"{who}: data.categories gives [first feature, number of words] of each category of a vector, in order "
                f"and within the record's shape {shape}, unlike {[first, words]}."
            )
        free = first + words
    return scaling.categories


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
        raise UserError(f"{path} is neither a folder of images by class nor an .npz, .parquet or .csv file.")
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
    sources = [path] if kept_at is None else [path, kept_at]
    names, reading, found, columns = _with_words(sources, labels, reading)
    if not names and is_folder_of_images(path):
        names = _classes_in(sources)
    kept_back = None if kept_at is None else read_source(kept_at, names, reading)
    if path.is_dir() or holds_table(path):
        train, users = read_source(path, names, reading), read_users(path, reading.rules) if holds_table(path) else None
    else:
        train, kept_back, users = _from_npz(path, kept_back, reading)
    if kept_at is not None and kept_back is not None:
        train, kept_back = _in_one_mode([path, kept_at], [train, kept_back])
    known = replace(scaling, classes=len(names) or scaling.classes, categories=scaling.categories or places_in(found))
    problem = problem_of([train] if kept_back is None else [train, kept_back], known, name)
    train = by_constants(train, problem)
    kept_back = None if kept_back is None else by_constants(kept_back, problem)
    return Dataset(name, problem, train, kept_back, users=users, label_names=names, found=found, columns=columns)


def _from_npz(
    path: Path, kept_back: Examples | None, reading: Reading
) -> tuple[Examples, Examples | None, Tensor | None]:
    """(records, test set, users); a test set named in the config takes precedence over one inside the file."""
    arrays = _read_npz(path)
    if kept_back is None and ("x_test" in arrays or "y_test" in arrays):
        kept_back = Examples.from_npz(arrays, path, "x_test", "y_test", kind=reading.kind)
        kept_back = _with_persons(kept_back, arrays, path, reading.rules.person, "_test")
    train = Examples.from_npz(arrays, path, kind=reading.kind)
    train = _with_persons(train, arrays, path, reading.rules.person)
    return train, kept_back, _users(arrays, path)


def _with_persons(part: Examples, arrays: NpzArrays, path: Path, name: str | None, of: str = "") -> Examples:
    """From the array ``data.person``, else from 'person' if there is one."""
    array = (name or PERSON) + of
    if array in arrays:
        return replace(part, person=codes(arrays[array].tolist(), f"{path}, '{array}'"))
    if name is not None and not of:
        raise UserError(f"data.person: {path} has no array '{name}'; it has {', '.join(arrays)}.")
    return part


def is_folder_of_images(path: Path) -> bool:
    return path.is_dir() and not holds_table(path)


def _classes_in(sources: Sequence[Path]) -> tuple[str, ...]:
    return tuple(sorted({name for source in sources if is_folder_of_images(source) for name in class_names(source)}))


def _with_words(
    sources: Sequence[Path], labels: tuple[str, ...], reading: Reading
) -> tuple[tuple[str, ...], Reading, dict[str, Any], tuple[str, ...]]:
    """Class names and vocabularies from the texts of all tables, where the config does not give them; then what was
    found, as settings, and the columns that are features, in their order."""
    given = reading.rules.vocabulary
    every = [words_in(path, reading.rules) for path in sources if holds_table(path) and path.exists()]
    check_columns(every, reading.rules)
    names = labels or tuple(sorted({name for words in every for name in words.labels}))
    columns = sorted({name for words in every for name in words.categories})
    vocabulary = {
        name: sorted({word for words in every for word in words.categories.get(name, ())}) for name in columns
    }
    found: dict[str, Any] = {"labels": list(names)} if names and not labels else {}
    if vocabulary:
        found["vocabulary"] = {**{name: list(words) for name, words in given.items()}, **vocabulary}
    every_word = {**given, **vocabulary}
    features = next((words.features for words in every if words.features), frozenset[str]())
    if places := category_places(features, every_word):
        found["categories"] = [list(place) for place in places]
    return names, replace(reading, rules=replace(reading.rules, vocabulary=every_word)), found, in_order(features)


def places_in(found: Mapping[str, Any]) -> Categories:
    return tuple((first, words) for first, words in found.get("categories", ()))


def _in_one_mode(sources: Sequence[Path], parts: Sequence[Examples]) -> list[Examples]:
    """If one folder of images is in colour, so are the others."""
    colour = any(is_folder_of_images(path) and part.x.shape[1] == 3 for path, part in zip(sources, parts, strict=True))
    return [
        replace(part, x=_in_three_channels(part))
        if colour and is_folder_of_images(path) and part.x.shape[1] == 1
        else part
        for path, part in zip(sources, parts, strict=True)
    ]


def _in_three_channels(part: Examples) -> Tensor:
    if part.room is None or part.room.takes(3 * part.x.numel()):
        return part.x.expand(-1, 3, -1, -1).contiguous()
    x = part.room.bytes((len(part), 3, *part.x.shape[2:]), "data")
    for begin in range(0, len(part), IMAGES_AT_ONCE):
        x[begin : begin + IMAGES_AT_ONCE] = part.x[begin : begin + IMAGES_AT_ONCE]
    return x


def read_source(path: Path, names: Sequence[str], reading: Reading = PLAINLY) -> Examples:
    """All records of a file or folder; ``names`` are the class names in order."""
    if holds_table(path):
        return read_table(path, names, reading.shape, reading.frame, reading.rules, reading.room, reading.kind)
    if not path.is_dir():
        arrays = _read_npz(path)
        part = Examples.from_npz(arrays, path, kind=reading.kind)
        return _with_persons(part, arrays, path, reading.rules.person)
    if reading.rules.person is not None:
        raise UserError(
            f"data.person: {path} is a folder of images, which does not tell whose they are; put them into a table."
        )
    unknown = set(class_names(path)) - set(names) if names else set()
    if unknown:
        raise UserError(f"{path} has a folder '{min(unknown)}', which is not one of the classes: {', '.join(names)}.")
    found = read_images(path, names or class_names(path), reading.frame, reading.room)
    if found is None:
        raise _no_records_in(path)
    return found


def _no_records_in(path: Path) -> UserError:
    """A folder one level too high, with one folder per site, is the usual mistake."""
    said = f"{path} holds no PNG or JPEG images in one folder per class, and no .parquet or .csv file"
    inside = [
        name for name in class_names(path) if any(image_files(path / name / one) for one in class_names(path / name))
    ]
    if not inside:
        return UserError(f"{said}.")
    sites = ", ".join(f"{name}: {path / name}" for name in inside if name != "test" or len(inside) == 1)
    test = f", test: {path / 'test'}" if "test" in inside and len(inside) > 1 else ""
    return UserError(
        f"{said}, but {', '.join(inside[:-1])}{' and ' * (len(inside) > 1)}{inside[-1]} inside it do; name one of "
        f"them, or all in a config: data: {{sites: {{{sites}}}{test}}}."
    )


@dataclass(frozen=True)
class OwnSites:
    sites: Mapping[str, Examples]
    test: Examples | None
    label_names: tuple[str, ...]
    found: Mapping[str, Any] = field(default_factory=dict)  # settings that the files show
    columns: tuple[str, ...] = ()  # of a table, in the order of its features


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
    texts, reading, found, columns = _with_words(every, labels, reading)
    names = texts or _classes_in(every)
    if names and not texts and not all(is_folder_of_images(path) for path in every):
        raise UserError(
            "data.sites: use folders of images for every site and the test set, or for none; "
            "or name the classes in order with data.labels."
        )
    parts = _in_one_mode(every, [read_source(path, names, reading) for path in every])
    test_part = None if kept_at is None else parts[-1]
    return OwnSites(dict(zip(sources, parts, strict=False)), test_part, names, found, columns)
