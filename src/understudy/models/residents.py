"""Records that stay on an accelerator from one use to the next, so that a client's are not sent in every round.

First come, first kept: where there is no room for all, those that have a place keep it. (If the latest always had the
place, rounds that visit one client after another would find none of their records.) A place is free again when the
records themselves are gone, or when the network is.
"""

import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class _Resident:
    source: "weakref.ref[Tensor]"
    version: int  # of the source: how often it was written to
    there: Tensor


class Residents:
    def __init__(self, device: torch.device, room: int):
        """``room``: in bytes."""
        self._device, self._room = device, room if device.type != "cpu" else 0
        self._held: dict[int, _Resident] = {}

    @property
    def room(self) -> int:
        """What is left of it, in bytes."""
        return self._room

    def there(self, x: Tensor) -> Tensor:
        """``x`` on the device; the same tensor as before if it has a place. Nobody may write to it."""
        found = self._held.get(id(x))
        if found is not None and found.version == x._version:
            return found.there
        there = x.to(self._device)
        if there is not x and found is None and there.nbytes <= self._room:
            self._keep(x, there)
        return there

    def holds(self, x: Tensor) -> bool:
        found = self._held.get(id(x))
        return found is not None and found.version == x._version

    def _keep(self, x: Tensor, there: Tensor) -> None:
        here, key = weakref.ref(self), id(x)

        def gone(_: object) -> None:
            residents = here()
            if residents is not None:
                residents._room += residents._held.pop(key).there.nbytes

        self._room -= there.nbytes
        self._held[key] = _Resident(weakref.ref(x, gone), x._version, there)

    def stacked(self, parts: Sequence[Tensor]) -> Tensor:
        """All of them, one after another, on the device: those without a place go over together."""
        if self._device.type == "cpu":
            return torch.cat(list(parts))
        away = [part for part in parts if not self.holds(part)]
        if not away:
            return torch.cat([self.there(part) for part in parts])
        whole = torch.cat(away).to(self._device)
        sent = dict(zip(map(id, away), torch.split(whole, [len(part) for part in away]), strict=True))
        for part in away:
            if id(part) not in self._held and 0 < part.nbytes <= self._room:
                self._keep(part, sent[id(part)].clone())  # not a piece of the block, which would stay as a whole
        if len(away) == len(parts):
            return whole
        return torch.cat([sent[id(part)] if id(part) in sent else self.there(part) for part in parts])
