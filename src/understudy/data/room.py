"""Where records are kept: in memory up to a budget, beyond it in files that are mapped into memory.

Mapped records are read page by page as batches need them, and the system drops pages again, so a run takes little more
memory than its batches. The bits are the same. Records that are dealt out go into files without a name, which are gone
with the process.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from understudy.errors import UserError
from understudy.heap import memory_of_machine

AT_ONCE = 2**24  # bytes that are copied at a time
UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}


def bytes_of(amount: str) -> int:
    """``2GB`` -> 2 000 000 000"""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?b)?", amount.strip().lower())
    if found is None:
        raise ValueError(f"write an amount such as 2GB or 500MB, not {amount!r}")
    return int(float(found[1]) * UNITS[found[2] if found[2] not in (None, "b") else ""])


def cache_folder() -> Path:
    """The user's; what is in it can be deleted at any time."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "understudy"


class Room:
    def __init__(self, memory: int | None = None, folder: Path | None = None):
        """``memory`` in bytes; None: half of what the machine has."""
        self._left = memory_of_machine() // 2 if memory is None else memory
        self.folder = folder or cache_folder()
        self._exceeded = False

    def takes(self, nbytes: int) -> bool:
        """Whether they are to be in memory; then the budget is less by that. Clients get copies, so it counts twice."""
        if 2 * nbytes > self._left:
            self._exceeded = True
            return False
        self._left -= 2 * nbytes
        return True

    def bytes(self, shape: Sequence[int], source: str) -> Tensor:
        """A uint8 tensor in a file without a name."""
        path = self.draft(prod(shape), source)
        try:
            return mapped(path, shape, shared=True)
        finally:
            path.unlink()

    def draft(self, nbytes: int, source: str) -> Path:
        """A new file of that size, with its space taken: a full disk shows here, not in the middle of writing."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(self.folder).free
            if nbytes > free:
                raise UserError(_full(source, nbytes, free, self.folder))
            number, name = tempfile.mkstemp(".draft", dir=self.folder)
            try:
                os.posix_fallocate(number, 0, max(nbytes, 1))
            except OSError:
                os.unlink(name)
                raise
            finally:
                os.close(number)
        except OSError as refused:
            raise UserError(
                f"{source}: its images exceed data.memory, and {self.folder} cannot hold them "
                f"({refused.strerror or refused}); set XDG_CACHE_HOME to another folder, or a larger data.memory."
            ) from None
        return Path(name)

    def rows(self, x: Tensor, at: Tensor) -> Tensor:
        """``x[at]``; once memory was exceeded, they go into a file, and all of them in order are ``x`` itself."""
        if not self._exceeded or not len(at) or x.dtype != torch.uint8:
            return x[at]
        if len(at) == len(x) and bool((at == torch.arange(len(x))).all()):
            return x
        found = self.bytes((len(at), *x.shape[1:]), "data")
        step = max(1, AT_ONCE // prod(x.shape[1:]))
        for begin in range(0, len(at), step):
            found[begin : begin + step] = x[at[begin : begin + step]]
        return found


def mapped(path: Path, shape: Sequence[int], *, shared: bool) -> Tensor:
    """The file as a uint8 tensor; unless it is ``shared``, writing to the tensor leaves the file as it is."""
    return torch.from_file(str(path), shared=shared, size=prod(shape), dtype=torch.uint8).view(*shape)


def _full(source: str, needed: int, free: int, folder: Path) -> str:
    return (
        f"{source}: its images take {needed / 1e9:,.1f} GB, more than data.memory allows, and {folder} has only "
        f"{free / 1e9:,.1f} GB free; choose a smaller data.size, or set XDG_CACHE_HOME to another folder."
    )
