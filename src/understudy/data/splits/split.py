"""Who holds which record: a value with a digest, saved as one JSON file."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from understudy.errors import UserError
from understudy.files import write_whole
from understudy.reading import json_of, text_of


def _indices(values: Any, where: str) -> Tensor:
    try:
        given = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as wrong:
        raise UserError(f"The split's records of {where} are not a list of whole numbers: {wrong}.") from None
    if given.ndim != 1 or (given.numel() and (given.is_floating_point() or given.dtype == torch.bool)):
        raise UserError(f"The split's records of {where} are not a list of whole numbers.")
    return given.to(torch.int64)


@dataclass(frozen=True)
class Split:
    clients: Mapping[str, Tensor]  # name -> indices into the training set: its own records
    held_out: Mapping[str, Tensor] = field(default_factory=dict)  # name -> records kept back there for scoring
    validation: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))  # on the server
    notes: tuple[str, ...] = ()  # what a reader should know about how it was made

    def __post_init__(self) -> None:
        clients = {name: _indices(values, name) for name, values in self.clients.items()}
        unknown = next((name for name in self.held_out if name not in clients), None)
        if unknown is not None:
            raise UserError(f"The split holds out records for '{unknown}', which is not one of its clients.")
        held_out = {name: _indices(self.held_out.get(name, []), name) for name in clients}
        object.__setattr__(self, "clients", clients)
        object.__setattr__(self, "held_out", held_out)
        object.__setattr__(self, "validation", _indices(self.validation, "the validation set"))
        self._check_each_once()

    def _check_each_once(self) -> None:
        if not self.clients:
            raise UserError("The split has no clients.")
        used = torch.cat([*self.clients.values(), *self.held_out.values(), self.validation])
        if len(used) and int(used.min()) < 0:
            raise UserError(f"The split names record {int(used.min())}; records are numbered from 0.")
        values, times = np.unique(used.numpy(), return_counts=True)
        if (times > 1).any():
            raise UserError(f"The split uses record {values[times > 1][0]} twice.")

    @property
    def last(self) -> int:
        """The highest record it names; −1 if it names none."""
        used = torch.cat([*self.clients.values(), *self.held_out.values(), self.validation])
        return int(used.max()) if len(used) else -1

    @property
    def digest(self) -> str:
        """sha256 over who holds what; notes do not count."""
        return hashlib.sha256(json.dumps(self._content()).encode()).hexdigest()

    def _content(self) -> dict[str, Any]:
        return {
            "clients": {name: indices.tolist() for name, indices in self.clients.items()},
            "held_out": {name: indices.tolist() for name, indices in self.held_out.items()},
            "validation": self.validation.tolist(),
        }

    def check_fits(self, records: int, who: str) -> None:
        if self.last >= records:
            raise UserError(f"The split names record {self.last}, but {who} has only {records} training records.")

    def save(self, path: Path) -> None:
        text = json.dumps({"digest": self.digest, "notes": self.notes, **self._content()})
        try:
            write_whole(path, text.encode())
        except OSError as refused:
            raise UserError(f"{path} cannot be written: {refused.strerror or refused}.") from None

    @classmethod
    def load(cls, path: Path) -> Self:
        stored = _read(path)
        try:
            split = cls(stored["clients"], stored["held_out"], stored["validation"], tuple(stored.get("notes", ())))
            digest = stored["digest"]
        except (KeyError, AttributeError, TypeError) as wrong:
            raise UserError(f"{path} is not a saved split: {wrong} is missing or of the wrong type.") from None
        except UserError as wrong:
            raise UserError(f"{path}: {wrong}") from None
        if digest != split.digest:
            raise UserError(f"{path} has changed since it was saved: its digest does not match; make it again.")
        return split


def _read(path: Path) -> dict[str, Any]:
    stored = json_of(text_of(path), f"The split {path}")
    if not isinstance(stored, dict):
        raise UserError(f"{path} is not a saved split.")
    return stored
