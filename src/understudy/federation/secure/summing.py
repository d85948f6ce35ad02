"""The server's half of secure aggregation: sums in four phases, of which it sees nothing but the sum."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from understudy.errors import UserError
from understudy.federation.message import Message
from understudy.federation.secure import keys, party
from understudy.federation.secure.graph import neighbours, well_connected
from understudy.federation.secure.grid import Grid, Whole, grid_for
from understudy.federation.secure.masks import add_stream, mask_sign
from understudy.federation.secure.shares import join, needed_of
from understudy.federation.server import NO_BOUNDS, Brief, Reply, Server, Task, TooFewReplies, WrappedServer


@dataclass(frozen=True)
class Phases:
    """The tasks around the real one, and what both sides agree on."""

    advertise: Task
    share: Task
    unmask: Task
    rules: party.Rules
    range: float
    bits: int

    def grid(self, clients: int) -> Grid:
        return grid_for(clients, range=self.range, bits=self.bits)


@dataclass(frozen=True)
class Circle:
    """Who takes part, by number, as far as the phases have come."""

    names: Sequence[str]  # of all clients: a number is a place in here
    public: Mapping[int, Tensor]  # (2, 32) bytes of public keys
    graph: dict[int, tuple[int, ...]]
    threshold: float

    def holders(self, one: int) -> list[int]:
        return sorted([one, *self.graph[one]])

    def needed(self, one: int) -> int:
        return needed_of(len(self.graph[one]) + 1, self.threshold)


class SecureServer(WrappedServer):
    def __init__(self, inner: Server, phases: Phases):
        super().__init__(inner)
        self._phases = phases
        self._number = {name: number for number, name in enumerate(self.clients)}

    def ask(self, task: Task, brief: Brief, to: Sequence[str], at_least: int | None = None) -> Iterator[Reply]:
        name = getattr(task, "__qualname__", "a task")
        raise UserError(
            f"secure-aggregation hands out sums only, and {name} is asked for single replies; use server.sum."
        )

    def sum(
        self,
        task: Task,
        brief: Brief,
        to: Sequence[str],
        like: Mapping[str, Sequence[int]],
        least: Mapping[str, float] = NO_BOUNDS,
    ) -> Message:
        """Nobody can see here whether one input lies below ``least``: that is the price of masks."""
        self._enough(to, "were there")
        grid = self._phases.grid(len(to))
        circle = self._advertised(to)
        boxes = self._shared(circle)
        members = well_connected(list(boxes), circle.graph, {one: circle.needed(one) for one in boxes})
        self._enough(members, "exchanged shares")
        sizes = {part: int(np.prod(like[part], dtype=np.int64)) for part in sorted(like)}
        total, heard = self._masked(
            task, self._with_boxes(brief, circle, boxes, members, len(to)), members, sizes, grid
        )
        self._enough(heard, f"sent their masked {', '.join(sizes)}")
        dropped = [one for one in members if one not in set(heard)]
        self._take_masks_off(total, circle, heard, dropped)
        return _cut(grid.numbers(total), sizes, like)

    # ---- the phases

    def _advertised(self, to: Sequence[str]) -> Circle:
        public = {}
        for reply in self.inner.ask(self._phases.advertise, Message(), to):
            if _fits(reply, "keys", (2, keys.PUBLIC)) and _are_keys(reply):
                public[self._number[reply.client]] = reply["keys"]
        self._enough(public, "sent public keys")
        drawn = torch.randperm(len(public), generator=self.rng("secure aggregation ring")).tolist()
        rules = self._phases.rules
        graph = neighbours([list(public)[at] for at in drawn], rules.neighbours)
        return Circle(self.clients, public, graph, rules.threshold)

    def _shared(self, circle: Circle) -> dict[int, dict[int, Tensor]]:
        """Boxes by sender and receiver."""

        def brief(client: str) -> Message:
            me = self._number[client]
            peers = circle.graph[me]
            public = torch.stack([circle.public[peer] for peer in peers])
            return Message({party.ME: torch.tensor(me), party.PEERS: torch.tensor(peers), party.KEYS: public})

        boxes = {}
        for reply in self.inner.ask(self._phases.share, brief, self._names(circle.public)):
            sender = self._number[reply.client]
            peers = circle.graph[sender]
            if _fits(reply, "shares", (len(peers), party.BOX)):
                boxes[sender] = dict(zip(peers, reply["shares"], strict=True))
        return boxes

    def _with_boxes(
        self,
        brief: Brief,
        circle: Circle,
        boxes: Mapping[int, Mapping[int, Tensor]],
        members: Sequence[int],
        clients: int,
    ) -> Brief:
        still_here = set(members)

        def with_boxes(client: str) -> Message:
            me = self._number[client]
            senders = [peer for peer in circle.graph[me] if peer in still_here]
            message = brief if isinstance(brief, Message) else brief(client)
            received = torch.stack([boxes[peer][me] for peer in senders])
            return message.but(
                {party.SENDERS: torch.tensor(senders), party.BOXES: received, party.CLIENTS: torch.tensor(clients)}
            )

        return with_boxes

    def _masked(
        self, task: Task, brief: Brief, members: Sequence[int], sizes: Mapping[str, int], grid: Grid
    ) -> tuple[Whole, list[int]]:
        """The sum with masks over it, and whose inputs are in it."""
        total, heard = np.zeros(sum(sizes.values()), dtype=np.uint64), []
        wanted = {part: ((size, grid.bits // 8), torch.uint8) for part, size in sizes.items()}
        for reply in self.inner.ask(task, brief, self._names(members)):
            if {part: (tuple(t.shape), t.dtype) for part, t in reply.items()} != wanted:
                reply.refuse(f"it holds {reply.message!r}, wanted are {', '.join(sizes)} under masks, of other shapes")
                continue
            total += grid.unpack(torch.cat([reply[part] for part in sizes]))
            heard.append(self._number[reply.client])
        return total, heard

    def _take_masks_off(self, total: Whole, circle: Circle, heard: Sequence[int], dropped: Sequence[int]) -> None:
        """In place: the own masks of those in the sum, and what they share with those that are not."""
        shares = self._unmasked(circle, heard, dropped)
        purpose = party.mask_purpose(self.round)
        for one in heard:
            add_stream(total, self._joined(circle, one, shares[one]), -1)
        for one in dropped:
            seed = self._joined(circle, one, shares[one])
            if keys.public_key(seed) != party.to_bytes(circle.public[one][0]):
                raise TooFewReplies(f"the shares of the key of {circle.names[one]} do not fit together")
            for peer in set(circle.graph[one]).intersection(heard):
                key = keys.agreed_key(seed, party.to_bytes(circle.public[peer][0]), purpose)
                add_stream(total, key, mask_sign(one, peer))  # the peer had added it with the other sign

    def _unmasked(self, circle: Circle, heard: Sequence[int], dropped: Sequence[int]) -> dict[int, dict[int, bytes]]:
        """Shares by owner and place: of the own mask of those in the sum, of the key of those that are not."""

        in_it, not_in_it = set(heard), set(dropped)

        def lists(me: int) -> tuple[list[int], list[int]]:
            near = circle.holders(me)
            return [one for one in near if one in in_it], [one for one in near if one in not_in_it]

        def brief(client: str) -> Message:
            survivors, lost = lists(self._number[client])
            whole = torch.int64  # also where nobody dropped
            return Message(
                {party.SURVIVORS: torch.tensor(survivors, dtype=whole), party.DROPPED: torch.tensor(lost, dtype=whole)}
            )

        shares: dict[int, dict[int, bytes]] = {one: {} for one in (*heard, *dropped)}
        for reply in self.inner.ask(self._phases.unmask, brief, self._names(heard), at_least=0):
            holder = self._number[reply.client]
            owners = [one for some in lists(holder) for one in some]
            if _fits(reply, "shares", (len(owners), keys.SEED)):
                for owner, share in zip(owners, reply["shares"], strict=True):
                    shares[owner][circle.holders(owner).index(holder) + 1] = party.to_bytes(share)
        return shares

    # ---- names, numbers, and whether there are enough

    def _joined(self, circle: Circle, owner: int, shares: Mapping[int, bytes]) -> bytes:
        needed = circle.needed(owner)
        if len(shares) < needed:
            raise TooFewReplies(
                f"{len(shares)} clients sent their share for {circle.names[owner]}, {needed} are needed to open the sum"
            )
        return join(shares, needed)

    def _names(self, numbers: Mapping[int, object] | Sequence[int]) -> list[str]:
        return [self.clients[number] for number in numbers]

    def _enough(self, who: Mapping[int, object] | Sequence[object], did: str) -> None:
        if len(who) < self._phases.rules.fewest:
            raise TooFewReplies(
                f"{len(who)} clients {did}, {self._phases.rules.fewest} are needed for a sum under secure-aggregation"
            )


def _fits(reply: Reply, part: str, shape: tuple[int, ...]) -> bool:
    if part in reply and tuple(reply[part].shape) == shape and reply[part].dtype == torch.uint8:
        return True
    reply.refuse(f"it holds {reply.message!r}, wanted is {part} of shape {list(shape)} in bytes")
    return False


def _are_keys(reply: Reply) -> bool:
    """Seen here, or all neighbours would fail over them."""
    try:
        for public in reply["keys"]:
            keys.agreed_key(keys.fresh_seed(), party.to_bytes(public), "a look")
    except UserError as wrong:
        reply.refuse(str(wrong))
    return reply.refusal is None


def _cut(numbers: Tensor, sizes: Mapping[str, int], like: Mapping[str, Sequence[int]]) -> Message:
    pieces = torch.split(numbers, list(sizes.values()))
    return Message({part: piece.view(tuple(like[part])) for part, piece in zip(sizes, pieces, strict=True)})
