"""The pool of shuffled images: every client is dealt an equal part, in the first brief that it gets."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.federation.method import State
from understudy.federation.server import Brief, Reply, Server, Task, WrappedServer

POOL_X, POOL_Y, GIVEN = "fedssyn.x", "fedssyn.y", "fedssyn.given"  # in State: the shuffled pool; who has its part


def shuffled(replies: Sequence[Reply], clients: int, rng: torch.Generator) -> Message:
    """The one permutation: it is drawn here, and what it gave stays in State."""
    x, y = torch.cat([reply["x"] for reply in replies]), torch.cat([reply["y"] for reply in replies])
    order = torch.randperm(len(y), generator=rng)
    return Message({POOL_X: x[order], POOL_Y: y[order], GIVEN: torch.zeros(clients, dtype=torch.uint8)})


def nothing_to_deal(clients: int) -> Message:
    return Message({GIVEN: torch.ones(clients, dtype=torch.uint8)})


def receiving(work: Task) -> Task:
    """A task that may bring a client its part."""

    def receive_and_work(client: Client, brief: Message) -> Message:
        if POOL_X in brief:
            client.keep_dealt(Message(x=brief[POOL_X], y=brief[POOL_Y]))
        return work(client, brief.only(*(part for part in brief if part not in (POOL_X, POOL_Y))))

    return receive_and_work


class Dealer(WrappedServer):
    """Puts a client's part into the first brief that it gets."""

    def __init__(self, server: Server, state: State):
        super().__init__(server)
        self._state = state
        self._heard_from: dict[int, Reply] = {}

    def ask(self, task: Task, brief: Brief, to: Sequence[str], at_least: int | None = None) -> Iterator[Reply]:
        if bool(self.given.all()):
            return self.inner.ask(task, brief, to, at_least)
        return self._noted(self.inner.ask(task, lambda client: self._with_part(client, brief), to, at_least))

    def _noted(self, replies: Iterator[Reply]) -> Iterator[Reply]:
        for reply in replies:
            self._heard_from[list(self.clients).index(reply.client)] = reply
            yield reply

    @property
    def given(self) -> Tensor:
        """Who has its part: also those that answered just now, unless their reply was refused."""
        given = self._state[GIVEN].clone()
        given[[at for at, reply in self._heard_from.items() if reply.refusal is None]] = 1
        return given

    def _with_part(self, client: str, brief: Brief) -> Message:
        message = brief if isinstance(brief, Message) else brief(client)
        at = list(self.clients).index(client)
        if self._state[GIVEN][at] or at in self._heard_from:
            return message
        mine = slices(len(self._state[POOL_Y]), len(self.clients))[at]
        return message.but({POOL_X: self._state[POOL_X][mine], POOL_Y: self._state[POOL_Y][mine]})


def slices(total: int, parts: int) -> list[slice]:
    """Equal parts; where they do not come out even, the first ones are longer by one."""
    short, longer = divmod(total, parts)
    ends = [short * k + min(k, longer) for k in range(parts + 1)]
    return [slice(a, b) for a, b in pairwise(ends)]
