"""Very many clients: who holds what is one index over one block of records, and a client is made when it is asked for.

A list of a million names, tensors and holdings takes minutes and gigabytes; the index takes eight bytes per record.
Records that a client holds back for scores are drawn from its own stream, so that too can wait until it is asked for.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch

from understudy.data.examples import Examples
from understudy.data.holding import Holding, hold_out
from understudy.data.strata import Indices
from understudy.files import write_whole

MANY = 20_000  # clients: from here on they are a population
AT_HAND = 4096  # holdings that stay made


class NumberedNames(Sequence[str]):
    """``client-0``, ``client-1``, …: names in order, none of which is stored."""

    def __init__(self, prefix: str, numbers: Indices):
        self._prefix, self._numbers = prefix, numbers  # ascending
        self._without_gaps = bool(len(numbers)) and int(numbers[0]) == 0 and int(numbers[-1]) == len(numbers) - 1

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> "NumberedNames": ...
    def __getitem__(self, at: int | slice) -> "str | NumberedNames":
        if isinstance(at, slice):
            return NumberedNames(self._prefix, self._numbers[at])
        return f"{self._prefix}{self._numbers[at]}"

    def __iter__(self) -> Iterator[str]:
        return (f"{self._prefix}{number}" for number in self._numbers)

    def __contains__(self, name: object) -> bool:
        return self.place(name) is not None

    def place(self, name: object) -> int | None:
        """Where it stands; None: nowhere."""
        if not isinstance(name, str) or not name.startswith(self._prefix):
            return None
        digits = name[len(self._prefix) :]
        if not digits.isascii() or not digits.isdecimal() or len(digits) > 18:
            return None
        number = int(digits)
        at = number if self._without_gaps else int(np.searchsorted(self._numbers, number))
        return at if at < len(self) and self._numbers[at] == number and str(number) == digits else None


@dataclass(frozen=True)
class DealtIndex:
    """Client k holds the records ``order[offsets[k]:offsets[k + 1]]``, in ascending order."""

    names: NumberedNames
    order: Indices
    offsets: Indices
    notes: tuple[str, ...] = ()


def dealt_index(names: NumberedNames, order: Indices, sizes: Indices, notes: tuple[str, ...] = ()) -> DealtIndex:
    """From records in the order in which they are dealt out, and how many each client gets."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    records = int(order.max(initial=0)) + 1
    key = np.repeat(np.arange(len(sizes), dtype=np.int64) * records, sizes)
    key += order
    key.sort()
    key %= records
    return DealtIndex(names, key, offsets, notes)


class PopulationSites(Mapping[str, Holding]):
    """Holdings by name, each made when it is asked for."""

    def __init__(self, train: Examples, index: DealtIndex, share: float, seed: int, rule: Mapping[str, Any]):
        self.train, self.index, self.share, self.seed, self.rule = train, index, share, seed, rule
        self._made = lru_cache(maxsize=AT_HAND)(self._make)
        self._none = train.none()

    def __len__(self) -> int:
        return len(self.index.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.index.names)

    def __contains__(self, name: object) -> bool:
        return name in self.index.names

    def __getitem__(self, name: str) -> Holding:
        at = self.index.names.place(name)
        if at is None:
            raise KeyError(name)
        return self._made(at)

    def _make(self, at: int) -> Holding:
        mine = self.index.order[self.index.offsets[at] : self.index.offsets[at + 1]]
        own, kept = hold_out(mine, self.train, self.share, self.seed, self.index.names[at])
        held_out = self.train.take(torch.from_numpy(kept)) if len(kept) else self._none
        return Holding(self.train.take(torch.from_numpy(own)), held_out)

    @property
    def digest(self) -> str:
        """Over the records and who holds them."""
        total = hashlib.sha256(json.dumps([self.share, self.seed, len(self), self.index.names[0]]).encode())
        for part in (self.train.x, self.train.y):
            total.update(str((tuple(part.shape), str(part.dtype))).encode())
            total.update(part.contiguous().numpy().data)
        for array in (self.index.order, self.index.offsets):
            total.update(array.data)
        return total.hexdigest()

    def save(self, path: Path) -> None:
        """How it can be made again: naming every record would take more space than the records."""
        told = {"rule": dict(self.rule), "seed": self.seed, "held_out": self.share, "clients": len(self)}
        digest = hashlib.sha256(self.index.order.tobytes() + self.index.offsets.tobytes()).hexdigest()
        write_whole(path, json.dumps({"digest": digest, "notes": self.index.notes, **told}).encode())
