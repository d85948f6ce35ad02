"""Columns of an Arrow table as arrays: numbers, lists of numbers, names of classes, encoded images.

Imported only once there is a table to read: not everyone has pyarrow.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import Tensor

from understudy.data.images import Picture
from understudy.errors import UserError


@dataclass(frozen=True)
class Column:
    """One column of one file; ``values`` is a ``pyarrow.ChunkedArray`` with at least one row."""

    name: str
    values: Any
    file: str

    @property
    def who(self) -> str:
        return f"{self.file}, column '{self.name}'"

    def wrong(self, what: str) -> UserError:
        return UserError(f"{self.who}: {what}")

    @property
    def is_list(self) -> bool:
        return _is_list(self.values.type) or _is_tensor(self.values.type)

    @property
    def is_number(self) -> bool:
        return _is_number(_plain(self.values.type))

    @property
    def is_text(self) -> bool:
        kind = _plain(self.values.type)
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))

    @property
    def is_image(self) -> bool:
        """Bytes, or the struct with bytes that the datasets library writes."""
        kind = self.values.type
        if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
            kind = kind.field("bytes").type
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))

    def numbers(self) -> NDArray[np.generic]:
        """(n,), of any type."""
        if not self.is_number:
            raise self.wrong(f"it holds {self.values.type}, but must hold numbers.")
        return self.nested()

    def features(self, *, nothing: bool) -> Tensor:
        """(n,) float32; ``nothing``: a value may be missing, and is NaN."""
        if not self.is_number:
            raise self.wrong(
                f"it holds {self.values.type}, but must hold numbers or texts; turn it into one of them, or leave it "
                "out with data.ignore."
            )
        if not nothing or not self.values.null_count:
            return torch.from_numpy(self.numbers()).to(torch.float32)
        values = self.values.cast(_plain(self.values.type)).cast(pa.float64())
        return torch.from_numpy(pc.fill_null(values, math.nan).to_numpy().astype(np.float32))

    def present(self) -> NDArray[np.bool_]:
        """(n,): where there is a value."""
        floating = pa.types.is_floating(self.values.type)
        missing: NDArray[np.bool_] = pc.is_null(self.values, nan_is_null=floating).to_numpy()
        return ~missing

    def cells(self) -> list[object]:
        """As Python has them."""
        if not self.is_text and not self.is_number:
            raise self.wrong(f"it holds {self.values.type}; persons are told apart by numbers or texts.")
        return list(self.values.to_pylist())

    def words(self) -> set[str]:
        """The different values, as texts."""
        return {word for word in self._texts().unique().to_pylist() if word is not None}

    def indicators(self, vocabulary: Sequence[str], *, nothing: bool) -> Tensor:
        """(n, words) float32: 1 for the word that a cell has; ``nothing``: a cell may be empty, and is a row of 0."""
        if not nothing:
            _no_nulls(self, self.values)
        texts = self._texts()
        found = pc.index_in(texts, value_set=pa.array(vocabulary, pa.string()), skip_nulls=True)
        unknown = pc.and_(found.is_null(), texts.is_valid())
        if pc.any(unknown).as_py():
            row = pc.index(unknown, True).as_py()
            raise self.wrong(
                f"row {row} has '{texts[row]}', which is not in data.vocabulary.{self.name}: {', '.join(vocabulary)}."
            )
        at = torch.from_numpy(pc.fill_null(found, len(vocabulary)).to_numpy().astype(np.int64))
        return torch.nn.functional.one_hot(at, len(vocabulary) + 1)[:, :-1].to(torch.float32)

    def _texts(self) -> Any:
        return self.values.cast(_plain(self.values.type)).cast(pa.string())

    def nested(self) -> NDArray[np.generic]:
        """(n, …), with one more axis for each level of nesting."""
        parts = [_dense(self, chunk) for chunk in self.values.chunks if len(chunk)]
        if any(part.shape[1:] != parts[0].shape[1:] for part in parts):
            raise self.wrong(_RAGGED)
        return np.concatenate(parts)

    def class_numbers(self, names: Sequence[str]) -> NDArray[np.generic]:
        """(n,): the position of each name in ``names``."""
        _no_nulls(self, self.values)
        if not names:
            raise self.wrong("the labels are names; list all classes in data.labels, in the order of their numbers.")
        values = self.values.cast(pa.string())
        found = pc.index_in(values, value_set=pa.array(names, pa.string()))
        if found.null_count:
            row = pc.index(found.is_null(), True).as_py()
            raise self.wrong(f"row {row} is labelled '{values[row]}', which is not in data.labels: {', '.join(names)}.")
        return np.concatenate([chunk.to_numpy() for chunk in found.chunks])

    def pictures(self) -> list[Picture]:
        _no_nulls(self, self.values)
        cells = self.values
        if pa.types.is_struct(cells.type):
            cells = pa.chunked_array([chunk.field("bytes") for chunk in cells.chunks])
            if cells.null_count:
                raise self.wrong("some images have a path but no bytes; write the table with the image bytes in it.")
        return [Picture(f"{self.who}, row {row}", BytesIO(cell.as_py())) for row, cell in enumerate(cells)]


_RAGGED = "its lists differ in length; every record needs the same number of values."


def _dense(column: Column, values: Any) -> NDArray[np.generic]:
    """Lists of equal length become a further axis; the numbers are not copied where Arrow allows it."""
    if _is_tensor(values.type):
        _no_nulls(column, values)
        whole: NDArray[np.generic] = values.to_numpy_ndarray()
        return whole
    shape = [len(values)]
    while _is_list(values.type):
        _no_nulls(column, values)
        shape.append(_common_length(column, values))
        values = values.flatten()
    _no_nulls(column, values)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not _is_number(values.type):
        raise column.wrong(f"its lists hold {values.type}, but must hold numbers.")
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    if len(values) != math.prod(shape):
        raise column.wrong(_RAGGED)
    flat: NDArray[np.generic] = values.to_numpy(zero_copy_only=False)
    return flat.reshape(shape)


def _common_length(column: Column, values: Any) -> int:
    if pa.types.is_fixed_size_list(values.type):
        length = values.type.list_size
    else:
        least, most = (pc.min_max(pc.list_value_length(values))[end].as_py() or 0 for end in ("min", "max"))
        if least != most:
            raise column.wrong(_RAGGED)
        length = most
    if not length:
        raise column.wrong("its lists are empty; every record needs values.")
    return int(length)


def _no_nulls(column: Column, values: Any) -> None:
    if values.null_count:
        raise column.wrong("some values are missing (null); fill them, or write data.missing: drop or mean.")


def _plain(kind: Any) -> Any:
    """The type of the values behind a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_tensor(kind: Any) -> bool:
    return isinstance(kind, pa.FixedShapeTensorType)


def _is_number(kind: Any) -> bool:
    one = pa.types
    return bool(one.is_integer(kind) or one.is_floating(kind) or one.is_boolean(kind) or one.is_decimal(kind))
