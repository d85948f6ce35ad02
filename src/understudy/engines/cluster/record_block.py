"""The records of all clients as a few numpy arrays, which Ray keeps once per node, in memory that processes share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from understudy.data.examples import Examples
from understudy.data.federation import Holding
from understudy.federation.site import Site

RecordArrays = dict[str, NDArray[np.generic]]


@dataclass(frozen=True)
class RecordBlock:
    arrays: RecordArrays  # x and y of all clients in a row, and of the common test set where there is one
    places: Mapping[str, tuple[int, int, int]]  # by client: first record, first one held out, end

    def holding(self, client: str) -> Holding:
        """A copy, since the block itself may not be written."""
        first, held_out, end = self.places[client]
        return Holding(self._copy(first, held_out), self._copy(held_out, end))

    def common(self) -> Examples | None:
        return (
            Examples(*map(_writable, (self.arrays["test_x"], self.arrays["test_y"])))
            if "test_x" in self.arrays
            else None
        )

    def _copy(self, first: int, end: int) -> Examples:
        return Examples(_writable(self.arrays["x"][first:end]), _writable(self.arrays["y"][first:end]))


def block_of(sites: Mapping[str, Site]) -> RecordBlock:
    places, parts, at = {}, [], 0
    for name, site in sites.items():
        own, held_out = site.holding.own, site.holding.held_out
        places[name] = (at, at + len(own), at + len(own) + len(held_out))
        parts += [own, held_out]
        at += len(own) + len(held_out)
    arrays: dict[str, Any] = {"x": torch.cat([part.x for part in parts]), "y": torch.cat([part.y for part in parts])}
    common = next(iter(sites.values())).common
    if common is not None:
        arrays |= {"test_x": common.x, "test_y": common.y}
    return RecordBlock({name: tensor.numpy() for name, tensor in arrays.items()}, places)


def _writable(array: NDArray[np.generic]) -> torch.Tensor:
    return torch.from_numpy(array.copy())
