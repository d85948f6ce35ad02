"""Your own data in Parquet: a file, or a folder of files, read in order of their names.

Labels are in ``label`` or ``y``: class numbers, or names that ``data.labels`` lists in order, or lists of zeros and
ones where a record has several. Records are in one of

- ``image``: PNG or JPEG bytes, alone or in the struct {bytes, path} that the datasets library writes;
- ``x`` or ``pixels``: lists of numbers. Nested lists are (height, width) or (channels, height, width); a flat list is
  a row of features, or has the shape ``data.shape`` if the sizes agree. uint8 stays pixels, all else becomes floats;
- neither: then every other column is a feature. Features are sorted by name (``f2`` before ``f10``), so that sites
  need not agree on an order, and become floats whatever their type.

``users``, whole numbers, tells whose record each is, for ``split: users``; a pandas index is ignored.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.framing import AS_IT_IS, Framing
from understudy.data.images import stack_pictures
from understudy.errors import UserError, missing_extra

if TYPE_CHECKING:
    from understudy.data.columns import Column

LABELS = ("label", "y")
RECORDS = ("image", "x", "pixels")
USERS = "users"
INDEX = re.compile(r"__index_level_\d+__")  # how pandas writes an index
TO_SCORE_ON = re.compile(r"(?<![a-z])(test|validation)(?![a-z])")


@dataclass(frozen=True)
class Table:
    file: str
    columns: Mapping[str, "Column"]

    def one_of(self, names: Sequence[str], what: str) -> "Column":
        found = [name for name in names if name in self.columns]
        if len(found) == 1:
            return self.columns[found[0]]
        wanted = " or ".join(f"'{name}'" for name in names)
        have = ", ".join(f"'{name}'" for name in found or self.columns)
        many = "more than one column" if found else "no column"
        raise UserError(f"{self.file} has {many} for {what} ({have}); name one column {wanted}.")

    def features(self) -> "dict[str, Column]":
        others = [name for name in self.columns if name not in (*LABELS, USERS) and not INDEX.fullmatch(name)]
        return {name: self.columns[name] for name in sorted(others, key=_by_number)}


def _by_number(name: str) -> list[str | int]:
    return [int(part) if at % 2 else part for at, part in enumerate(re.split(r"([0-9]+)", name))]


def holds_parquet(path: Path) -> bool:
    return path.suffix == ".parquet" or (path.is_dir() and any(path.glob("[!.]*.parquet")))


def read_parquet(
    path: Path, names: Sequence[str], shape: tuple[int, ...] | None = None, frame: Framing = AS_IT_IS
) -> Examples:
    """All records; ``names`` are the class names in order, ``shape`` is a record's where flat lists do not show it."""
    tables = _tables(path)
    y = _joined([_labels(table.one_of(LABELS, "labels"), names) for table in tables], tables)
    x = _records(tables, frame, str(path))
    if shape is not None and x.ndim == 2 and x.shape[1] == math.prod(shape):
        x = x.reshape(-1, *shape)
    return Examples.from_arrays(x, y, str(path))


def read_users(path: Path) -> Tensor | None:
    """(n,) int64: whose record each is, if the files tell."""
    tables = _tables(path, (USERS,))
    if not any(table.columns for table in tables):
        return None
    columns = [table.one_of((USERS,), "users") for table in tables]
    for column in columns:
        if column.numbers().dtype.kind not in "iu":
            raise column.wrong(f"users must be whole numbers, one per record, not {column.values.type}.")
    return torch.from_numpy(np.concatenate([column.numbers() for column in columns]).astype(np.int64))


def _records(tables: Sequence[Table], frame: Framing, source: str) -> Tensor | NDArray[np.generic]:
    if all(table.columns.keys().isdisjoint(RECORDS) for table in tables):
        return _features(tables)
    columns = [table.one_of(RECORDS, "records") for table in tables]
    if all(column.is_image for column in columns):
        pictures = [picture for column in columns for picture in column.pictures()]
        return stack_pictures(pictures, frame, source)
    for column in columns:
        if not column.is_list:
            raise column.wrong(f"it holds {column.values.type}; give lists of numbers, or images as PNG or JPEG bytes.")
    parts = [column.nested() for column in columns]
    if len({part.dtype == np.uint8 for part in parts}) > 1:
        raise UserError(f"Some files beside {tables[0].file} hold uint8 pixels, others other numbers; use one kind.")
    return _joined(parts, tables)


def _features(tables: Sequence[Table]) -> Tensor:
    """(n, columns) float32."""
    rows = []
    for table in tables:
        features = table.features()
        if not features:
            raise UserError(
                f"{table.file} has no records; put them in a column {', '.join(RECORDS)}, or one column per feature."
            )
        if features.keys() != tables[0].features().keys():
            raise UserError(f"{table.file} and {tables[0].file} have different columns; give every file the same.")
        rows.append(torch.stack([column.features() for column in features.values()], dim=1))
    return torch.cat(rows)


def _labels(column: "Column", names: Sequence[str]) -> NDArray[np.generic]:
    if column.is_text:
        return column.class_numbers(names)
    if not column.is_list:
        return column.numbers()
    several = column.nested()
    if several.ndim != 2 or not np.isin(several, (0, 1)).all():
        raise column.wrong("lists of labels must hold a 0 or 1 for each class.")
    return several


def _joined(parts: Sequence[NDArray[np.generic]], tables: Sequence[Table]) -> NDArray[np.generic]:
    for part, table in zip(parts, tables, strict=True):
        if part.shape[1:] != parts[0].shape[1:]:
            raise UserError(
                f"{table.file} has lists of shape {part.shape[1:]}, {tables[0].file} of shape {parts[0].shape[1:]}; "
                "every file needs the same shape."
            )
    return np.concatenate(parts)


def _tables(path: Path, only: Sequence[str] | None = None) -> list[Table]:
    """Every file that has rows."""
    tables = []
    for file in _files(path):
        read = _read(file, only)
        if read.num_rows:
            from understudy.data.columns import Column

            named = zip(read.column_names, read.columns, strict=True)
            tables.append(Table(str(file), {name: Column(name, values, str(file)) for name, values in named}))
    if not tables:
        raise UserError(f"{path} holds no records.")
    return tables


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("[!.]*.parquet"))
    if len({bool(TO_SCORE_ON.search(file.name)) for file in files}) > 1:
        raise UserError(
            f"{path} mixes files to learn from with files to score on; "
            "put them in two folders, train and test, or name the second with data.test."
        )
    return files


def _read(file: Path, only: Sequence[str] | None) -> Any:
    try:
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise missing_extra(f"{file}, a Parquet file,", "parquet") from None
    try:
        with ParquetFile(file, page_checksum_verification=True) as parquet:
            table = parquet.read(columns=None if only is None else list(only))
        table.validate(full=True)
        twice = len(set(table.column_names)) < table.num_columns
    except FileNotFoundError:
        raise UserError(f"There is no file {file}.") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as broken:
        raise UserError(f"{file} cannot be read as Parquet: {str(broken).rstrip('.')}.") from None
    if twice:
        raise UserError(f"{file} has two columns with the same name; rename one.")
    return table
