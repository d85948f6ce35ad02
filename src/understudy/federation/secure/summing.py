"""The server's side of secure aggregation: sums in four phases, in which it sees nothing but the sum."""

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
from understudy.federation.secure.opening import Circle, Opening, Shared
from understudy.federation.server import (
    NO_BOUNDS,
    Brief,
    Least,
    PartShapes,
    Reply,
    Server,
    Task,
    TooFewReplies,
    WrappedServer,
)


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


class SecureServer(WrappedServer):
    def __init__(self, inner: Server, phases: Phases):
        super().__init__(inner)
        self._phases = phases
        self._number = {name: number for number, name in enumerate(self.clients)}

    def ask(self, task: Task, brief: Brief, to: Sequence[str], at_least: int | None = None) -> Iterator[Reply]:
        name = getattr(task, "__qualname__", "a task")
        raise UserError(f"secure-aggregation only hands out sums, but {name} asks for single replies; use server.sum.")

    def sum(self, task: Task, brief: Brief, to: Sequence[str], like: PartShapes, least: Least = NO_BOUNDS) -> Message:
        """Whether a single input is below ``least`` cannot be seen here: that is the price of masking."""
        self._enough(to, "were there")
        grid = self._phases.grid(len(to))
        circle = self._advertised(to)
        shared = self._shared(circle)
        members = well_connected(list(shared), circle.graph, {one: circle.needed(one) for one in shared})
        self._enough(members, "exchanged shares")
        sizes = {part: int(np.prod(like[part], dtype=np.int64)) for part in sorted(like)}
        with_boxes = self._with_boxes(brief, circle, shared, members, len(to))
        total, agreed = self._masked(task, circle, with_boxes, members, sizes, grid)
        self._enough(agreed, f"sent their masked {', '.join(sizes)}")
        opening = self._opened(Opening(circle, shared, self.round, members, agreed))
        self._take_masks_off(total, opening)
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
        return Circle(public, graph, rules.threshold)

    def _shared(self, circle: Circle) -> dict[int, Shared]:
        """By sender."""

        def brief(client: str) -> Message:
            me = self._number[client]
            peers = circle.graph[me]
            public = torch.stack([circle.public[peer] for peer in peers])
            return Message({party.ME: torch.tensor(me), party.PEERS: torch.tensor(peers), party.KEYS: public})

        shared = {}
        for reply in self.inner.ask(self._phases.share, brief, self._names(circle.public)):
            sender = self._number[reply.client]
            peers, holders = circle.graph[sender], circle.holders(sender)
            if (
                _fits(reply, "shares", (len(peers), party.BOX))
                and _fits(reply, "commitments", (len(holders), 2, keys.COMMITMENT))
                and _fits(reply, "mask", (keys.COMMITMENT,))
            ):
                shared[sender] = Shared(
                    dict(zip(peers, reply["shares"], strict=True)),
                    dict(zip(holders, reply["commitments"], strict=True)),
                    party.to_bytes(reply["mask"]),
                )
        return shared

    def _with_boxes(
        self, brief: Brief, circle: Circle, shared: Mapping[int, Shared], members: Sequence[int], clients: int
    ) -> Brief:
        still_here = set(members)

        def with_boxes(client: str) -> Message:
            me = self._number[client]
            senders = circle.among(me, still_here)
            message = brief if isinstance(brief, Message) else brief(client)
            return message.but(
                {
                    party.SENDERS: torch.tensor(senders),
                    party.BOXES: torch.stack([shared[peer].boxes[me] for peer in senders]),
                    party.COMMITMENTS: torch.stack([shared[peer].commitments[me] for peer in senders]),
                    party.CLIENTS: torch.tensor(clients),
                }
            )

        return with_boxes

    def _masked(
        self, task: Task, circle: Circle, brief: Brief, members: Sequence[int], sizes: Mapping[str, int], grid: Grid
    ) -> tuple[Whole, dict[int, dict[int, bytes]]]:
        """The masked sum; and, by client in it and peer, the commitment to the key they agreed on."""
        total, agreed = np.zeros(sum(sizes.values()), dtype=np.uint64), {}
        still_here = set(members)
        parts = {part: ((size, grid.bits // 8), torch.uint8) for part, size in sizes.items()}
        for reply in self.inner.ask(task, brief, self._names(members)):
            me = self._number[reply.client]
            senders = circle.among(me, still_here)
            wanted = {**parts, party.AGREED: ((len(senders), keys.COMMITMENT), torch.uint8)}
            if {part: (tuple(t.shape), t.dtype) for part, t in reply.items()} != wanted:
                reply.refuse(f"it holds {reply!r}, but masked {', '.join(sizes)} of other shapes are expected")
                continue
            total += grid.unpack(torch.cat([reply[part] for part in sizes]))
            agreed[me] = dict(zip(senders, map(party.to_bytes, reply[party.AGREED]), strict=True))
        return total, agreed

    def _opened(self, opening: Opening) -> Opening:
        """Gets the secrets that remove the masks; failing that, the round is undone and those at fault are left out."""

        def brief(client: str) -> Message:
            survivors, lost = opening.asked_of(self._number[client])
            whole = torch.int64  # even if nobody dropped out
            return Message(
                {party.SURVIVORS: torch.tensor(survivors, dtype=whole), party.DROPPED: torch.tensor(lost, dtype=whole)}
            )

        self._leave_out(opening.strangers(), "the masks over the sum do not cancel")
        for reply in self.inner.ask(self._phases.unmask, brief, self._names(opening.heard), at_least=0):
            holder = self._number[reply.client]
            rows = sum(map(len, opening.asked_of(holder)))
            if _fits(reply, "shares", (rows, keys.SEED)) and _fits(reply, "opened", (rows,)):
                wrong = opening.take(holder, reply["shares"], reply["opened"])
                if wrong is not None:
                    reply.refuse(f"its share for {self.clients[wrong]} is not the one it was given")
        opening.join()
        if opening.closed:
            first = opening.closed[0]
            why = (
                f"{len(opening.shares[first])} clients sent their share for {self.clients[first]}; "
                f"{opening.circle.needed(first)} that fit together are needed to open the sum"
            )
            self._leave_out(opening.faults(), why)
            raise TooFewReplies(why)
        return opening

    def _leave_out(self, faults: Mapping[int, str], undone: str) -> None:
        """Leaves out those at fault, if any; the next round is without them."""
        for one, why in faults.items():
            self.leave_out(self.clients[one], why)
        if faults:
            raise TooFewReplies(undone)

    def _take_masks_off(self, total: Whole, opening: Opening) -> None:
        """In place: removes the own masks of clients in the sum, and those they share with dropped clients."""
        circle = opening.circle
        for one in opening.heard:
            add_stream(total, opening.seeds[one], -1)
        for one in opening.dropped:
            for peer in set(circle.graph[one]).intersection(opening.heard):
                purpose = party.mask_purpose(self.round, one, peer)
                key = keys.agreed_key(opening.seeds[one], party.to_bytes(circle.public[peer][0]), purpose)
                add_stream(total, key, mask_sign(one, peer))  # the peer added it with the opposite sign

    # ---- names, numbers, and whether there are enough

    def _names(self, numbers: Mapping[int, object] | Sequence[int]) -> list[str]:
        return [self.clients[number] for number in numbers]

    def _enough(self, who: Mapping[int, object] | Sequence[object], did: str) -> None:
        if len(who) < self._phases.rules.fewest:
            raise TooFewReplies(
                f"{len(who)} clients {did}; {self._phases.rules.fewest} are needed for a sum under secure-aggregation"
            )


def _fits(reply: Reply, part: str, shape: tuple[int, ...]) -> bool:
    if part in reply and tuple(reply[part].shape) == shape and reply[part].dtype == torch.uint8:
        return True
    reply.refuse(f"it holds {reply!r}, but {part} of shape {list(shape)} in bytes is expected")
    return False


def _are_keys(reply: Reply) -> bool:
    """Checked here, or all neighbours would fail over them."""
    try:
        for public in reply["keys"]:
            keys.agreed_key(keys.fresh_seed(), party.to_bytes(public), "a look")
    except UserError as wrong:
        reply.refuse(str(wrong))
    return reply.refusal is None


def _cut(numbers: Tensor, sizes: Mapping[str, int], like: PartShapes) -> Message:
    pieces = torch.split(numbers, list(sizes.values()))
    return Message({part: piece.view(tuple(like[part])) for part, piece in zip(sizes, pieces, strict=True)})
