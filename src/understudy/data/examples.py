"""Examples: what a client holds and what synthesis produces."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from understudy.data.kinds import RecordKind, guessed, records_as
from understudy.data.room import Room
from understudy.errors import UserError

NpzArrays = Mapping[str, NDArray[np.generic]]  # of an .npz file, by name


@dataclass(frozen=True)
class Examples:
    """Records and their labels, side by side.

    ``x`` is (n, …): uint8 pixels, channels first, float32 features exactly as a network takes them, or int32 tokens.
    Its shape shows what kind of record it is (`data.kinds`).
    ``y`` is (n,) int64 class numbers, or (n, classes) float32 zeros and ones where a record has several labels.
    ``person`` is (n,) int64, whose record each is; None: not known. It never leaves.

    >>> import numpy as np, understudy as us
    >>> some = us.Examples.from_arrays(np.zeros((3, 8, 8), np.uint8), [0, 1, 1])
    >>> len(some), tuple(some.x.shape)
    (3, (3, 1, 8, 8))
    """

    x: Tensor
    y: Tensor
    person: Tensor | None = None
    room: Room | None = None  # where copies of many of them go; None: into memory

    def __post_init__(self) -> None:
        if not isinstance(self.x, Tensor) or not isinstance(self.y, Tensor):
            raise UserError("Examples are two tensors; `Examples.from_arrays` makes them from anything numpy accepts.")
        if len(self.x) != len(self.y):
            raise UserError(f"{len(self.x)} records came with {len(self.y)} labels; each record needs one.")
        if self.person is not None and self.person.shape != (len(self.y),):
            raise UserError(f"{len(self.y)} records came with {len(self.person)} persons; each record needs one.")

    def __len__(self) -> int:
        return self.y.shape[0]  # `len` of a tensor is several times slower, and clients ask often

    @property
    def multilabel(self) -> bool:
        return self.y.ndim == 2

    def take(self, indices: Tensor | Sequence[int]) -> Self:
        at = torch.as_tensor(indices, dtype=torch.int64, device=self.y.device)
        return self._of(at, self.x[at])

    def keep(self, indices: Tensor | Sequence[int]) -> Self:
        """The same for a whole run: large ones are not in memory (`data.room`)."""
        at = torch.as_tensor(indices, dtype=torch.int64)
        return self._of(at, self.x[at] if self.room is None else self.room.rows(self.x, at))

    def _of(self, at: Tensor, x: Tensor) -> Self:
        return type(self)(x, self.y[at], None if self.person is None else self.person[at.cpu()], self.room)

    def to(self, device: torch.device) -> Self:
        """On that device, for a loop that reads them again and again."""
        return type(self)(self.x.to(device), self.y.to(device), self.person, self.room)

    def batches(self, size: int) -> Iterator[Self]:
        """In order; the last one may be smaller."""
        for start in range(0, len(self), size):
            yield type(self)(self.x[start : start + size], self.y[start : start + size])

    def none(self) -> Self:
        """No records, but of the same kind."""
        return self.take([])

    def and_also(self, others: "Examples") -> Self:
        if not len(others):
            return self
        if self.x.dtype != others.x.dtype:
            raise UserError(f"Records of type {self.x.dtype} and {others.x.dtype} cannot be joined.")
        both = None if self.person is None or others.person is None else torch.cat([self.person, others.person])
        return type(self)(torch.cat([self.x, others.x]), torch.cat([self.y, others.y]), both)

    def label_counts(self, classes: int) -> Tensor:
        """(classes,) int64: how many records have each label."""
        if self.multilabel:
            return self.y.sum(0).to(torch.int64)
        return torch.bincount(self.y, minlength=classes)

    def save(self, path: Path) -> None:
        x = self.x.float() if self.x.dtype == torch.bfloat16 else self.x  # numpy has no bfloat16
        np.savez_compressed(path, x=x.numpy(), y=self.y.numpy())

    @classmethod
    def load(cls, path: Path) -> Self:
        """As they were saved: nothing is guessed."""
        arrays = read_npz(path)
        return cls.from_npz(arrays, path, kind=_saved_as(arrays.get("x")))

    @classmethod
    def from_npz(
        cls, arrays: NpzArrays, path: Path, x: str = "x", y: str = "y", *, kind: RecordKind | None = None
    ) -> Self:
        """From two of the arrays that ``path`` holds."""
        for name in (x, y):
            if name not in arrays:
                raise UserError(f"{path} has no array '{name}'; it needs '{x}' (records) and '{y}' (labels).")
        return cls.from_arrays(arrays[x], arrays[y], str(path), kind=kind)

    @classmethod
    def from_arrays(cls, x: object, y: object, who: str = "", *, kind: RecordKind | None = None) -> Self:
        """From anything numpy accepts: images (n, height, width) get a channel, labels become int64. The ``kind`` of
        record is guessed if it is not given. An error names ``who``, a file or a client."""
        try:
            return cls(_records(x, kind), _labels(y))
        except UserError as wrong:
            raise UserError(f"{who}: {wrong}" if who else str(wrong)) from None


def read_npz(path: Path) -> dict[str, NDArray[np.generic]]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except FileNotFoundError:
        raise UserError(f"There is no file or folder {path}.") from None
    except (BadZipFile, ValueError, EOFError, OSError, TypeError, zlib.error) as broken:
        raise UserError(f"{path} cannot be read as .npz: {broken}.") from None


def _saved_as(x: NDArray[np.generic] | None) -> RecordKind | None:
    kinds: dict[int, RecordKind] = {3: "sequence", 4: "image"}
    return None if x is None else kinds.get(x.ndim)


def _records(x: object, kind: RecordKind | None) -> Tensor:
    records = _tensor(x, "records")
    if records.ndim > 1:
        records = records_as(records, kind or guessed(records))
    elif records.dtype != torch.uint8:
        records = records.to(torch.float32)
    if len(records) and not records[0].numel():
        raise UserError(f"records have shape {tuple(records.shape)}; they hold no numbers.")
    if records.ndim < 2 and len(records):
        raise UserError(f"records have shape {tuple(records.shape)}; give (n, …), one row or image per record.")
    if records.dtype == torch.uint8 and records.ndim == 4 and records.shape[3] == 3 != records.shape[1]:
        raise UserError(f"images have shape {tuple(records.shape)}; put channels first: (n, 3, height, width).")
    return records


def _tensor(values: object, what: str) -> Tensor:
    if isinstance(values, Tensor):
        tensor = values.detach().cpu()
    else:
        try:
            array = np.asarray(values)
        except ValueError as ragged:
            raise UserError(f"{what} are not an array: {ragged}.") from None
        if array.dtype.kind not in "buif":
            names = "; for names of classes, np.unique(labels, return_inverse=True)[1] numbers them from 0"
            more = names if what == "labels" and array.dtype.kind in "OSUT" else ""
            raise UserError(f"{what} are of type {array.dtype}; they must be real numbers{more}.")
        # A copy where the array is read-only or torch lacks its byte order.
        native = array.astype(array.dtype.newbyteorder("="), copy=not array.flags.writeable)
        tensor = torch.from_numpy(np.asarray(native, order="C"))
    if not tensor.ndim:
        raise UserError(f"{what} are a single number; give an array with one entry per record.")
    return tensor


def _labels(y: object) -> Tensor:
    labels = _tensor(y, "labels")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim > 2:
        raise UserError(f"labels have shape {tuple(labels.shape)}; they must have shape (n,) or (n, classes).")
    if labels.ndim == 2:
        return labels.to(torch.float32)
    whole = labels.to(torch.int64)
    if labels.is_floating_point() and not bool((labels == whole).all()):
        raise UserError("labels are not whole numbers; each record needs a class number, counted from 0.")
    return whole
