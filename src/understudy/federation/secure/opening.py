"""Opens a masked sum: combines the shares, and finds who is at fault if they do not fit."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from understudy.federation.secure import keys, party
from understudy.federation.secure.shares import join, needed_of


@dataclass(frozen=True)
class Circle:
    """Who takes part, by number."""

    public: Mapping[int, Tensor]  # (2, 32) bytes of public keys
    graph: dict[int, tuple[int, ...]]
    threshold: float

    def holders(self, one: int) -> list[int]:
        return sorted([one, *self.graph[one]])

    def among(self, one: int, members: Container[int]) -> list[int]:
        """Its neighbours that are still taking part."""
        return [peer for peer in self.graph[one] if peer in members]

    def needed(self, one: int) -> int:
        return needed_of(len(self.graph[one]) + 1, self.threshold)

    def spared(self, one: int) -> int:
        """How many in a neighbourhood may lie."""
        return max(1, len(self.holders(one)) - self.needed(one))


@dataclass(frozen=True)
class Shared:
    """What one client sent in the second phase."""

    boxes: Mapping[int, Tensor]  # by receiver
    commitments: Mapping[int, Tensor]  # by holder: (2, 32) bytes, for the share of its key and of its own mask
    mask: bytes  # the commitment to its own mask


@dataclass
class Opening:
    """The fourth phase: opens the own mask of every client in the sum, and the key of every dropped one."""

    circle: Circle
    shared: Mapping[int, Shared]
    round: int
    members: Sequence[int]  # who exchanged shares
    agreed: Mapping[int, Mapping[int, bytes]]  # by client in the sum and peer: a commitment to their shared key
    shares: dict[int, dict[int, bytes]] = field(default_factory=dict)  # by owner and place, as committed to
    seeds: dict[int, bytes] = field(default_factory=dict)  # by owner, once combined
    unopened: dict[int, list[int]] = field(default_factory=dict)  # by holder: the owners whose boxes it could not open

    def __post_init__(self) -> None:
        self.heard, self._in_sum = list(self.agreed), set(self.agreed)
        self.dropped = [one for one in self.members if one not in self._in_sum]
        self.shares = {one: {} for one in self.members}

    def strangers(self) -> dict[int, str]:
        """Clients whose masks do not cancel: their keys differ from those of more neighbours than may lie."""
        found = {}
        for one, mine in self.agreed.items():
            theirs = {peer: self.agreed[peer][one] for peer in mine if peer in self.agreed}
            apart = [peer for peer, key in theirs.items() if key != mine[peer]]
            if len(apart) > self.circle.spared(one):
                found[one] = f"it has other keys for masks than {len(apart)} of its neighbours"
        return found

    def asked_of(self, holder: int) -> tuple[list[int], list[int]]:
        """The clients whose own-mask share it gives, and those whose key share it gives."""
        near, out = self.circle.holders(holder), set(self.dropped)
        return [one for one in near if one in self._in_sum], [one for one in near if one in out]

    def take(self, holder: int, shares: Tensor, opened: Tensor) -> int | None:
        """Takes one holder's answer; if a share is not the one its owner committed to, returns that owner instead."""
        survivors, lost = self.asked_of(holder)
        given: dict[int, bytes] = {}
        for owner, share, there in zip([*survivors, *lost], shares, opened.tolist(), strict=True):
            if there:
                given[owner] = party.to_bytes(share)
                if not self._is_share(given[owner], owner, holder):
                    return owner
        for owner, share in given.items():
            self.shares[owner][self.circle.holders(owner).index(holder) + 1] = share
        self.unopened[holder] = [owner for owner in (*survivors, *lost) if owner not in given]
        return None

    def join(self) -> None:
        for one, shares in self.shares.items():
            needed = self.circle.needed(one)
            if len(shares) >= needed:
                self.seeds[one] = join(shares, needed)

    @property
    def closed(self) -> list[int]:
        """Clients whose secret is missing or wrong, so that the sum does not open."""
        return [one for one in self.members if one not in self.seeds or not self._is_seed(one)]

    def faults(self) -> dict[int, str]:
        """Who is at fault, and why, as long as no more in a neighbourhood lie than ``spared`` allows.

        A client whose shares match its commitments but give another secret; one accused by more than that many, since
        honest clients do not accuse each other; and one that accuses more than that many.
        """
        faults = {}
        for one in self.members:
            spared = self.circle.spared(one)
            accusers = [holder for holder, owners in self.unopened.items() if one in owners]
            accused = self.unopened.get(one, [])
            if one in self.seeds and not self._is_seed(one):
                faults[one] = "the shares of its secrets do not fit together"
            elif len(accusers) > spared:
                faults[one] = f"{len(accusers)} of its neighbours could not open what it shared with them"
            elif len(accused) > spared:
                faults[one] = f"it could not open what {len(accused)} of its neighbours shared with it"
        return faults

    def _is_share(self, share: bytes, owner: int, holder: int) -> bool:
        of_key, of_mask = map(party.to_bytes, self.shared[owner].commitments[holder])
        if owner in self._in_sum:
            return party.to_share("mask", share, self.round, owner, holder) == of_mask
        return party.to_share("key", share, self.round, owner, holder) == of_key

    def _is_seed(self, owner: int) -> bool:
        if owner in self._in_sum:
            return party.to_mask(self.seeds[owner], self.round, owner) == self.shared[owner].mask
        return keys.public_key(self.seeds[owner]) == party.to_bytes(self.circle.public[owner][0])
