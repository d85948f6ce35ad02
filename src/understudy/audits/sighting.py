"""What an attacker has: everything the server saw of a client, and records of the same distribution."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from torch import Tensor

from understudy.data.examples import Examples
from understudy.models.network import Network

MOST_KEPT = 32  # intermediate results, of the newest models

T = TypeVar("T")


@dataclass(frozen=True)
class SumsSent:
    """Sums over a client's records, with noise, and how one record enters them."""

    total: Tensor  # (d,)
    rows: Callable[[Examples], Tensor]  # (n, d): what each record adds
    noise: float  # standard deviation of each number's noise
    key: str  # the same for all clients that were asked the same


@dataclass(frozen=True)
class Sighting:
    """One reply of one client, as the server saw it."""

    round: int
    broadcast: Tensor | None  # the model in the brief as a flat vector; None: not kept
    examples: Examples | None  # labelled images that left, as they left: uint8, or float as the network takes them
    model: Tensor | None = None  # the local model, where weights left and the server can compute it
    sums: "SumsSent | None" = None  # sums over its records, where those left


@dataclass(frozen=True)
class Seen:
    """Everything that the server saw of one client."""

    client: str
    sightings: tuple[Sighting, ...]


@dataclass(frozen=True)
class View:
    """What an attacker knows besides, the same for all clients and attacks."""

    net: Network  # embeddings and losses under any weights
    reference: Examples  # records of the same distribution, neither members nor judged non-members
    _kept: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """What ``make`` returns, computed once per key: clients of a round share its model and the reference."""
        if key not in self._kept:
            while len(self._kept) >= MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = make()
        found: T = self._kept[key]
        return found


class Attack(Protocol):
    def __call__(self, seen: Seen, candidates: Examples, view: View) -> Tensor | None:
        """(n,) float64, higher: more likely a member. None: it needs something that was not kept or never left."""
