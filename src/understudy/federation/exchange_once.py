"""A method that wraps another and hands something out once: Fedssyn's shuffled images, for one.

A client's parts come with the first brief that it gets, however late that is. State records who has them already, so
after a resumed run or an undone round they are handed out again where they did not arrive.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.federation.method import Job, Method, State
from understudy.federation.server import Brief, Reply, Server, Task, WrappedServer
from understudy.federation.wrapped import WrappedMethod


class ExchangeOnce(WrappedMethod):
    """A subclass asks for what it wants in ``start``, puts it into State, and opens with `open_with`."""

    given: ClassVar[str]  # name in State: which clients have their parts, one byte per client
    once: ClassVar[tuple[str, ...]]  # names of the parts in a brief

    @abstractmethod
    def parts_for(self, state: State, at: int, clients: int) -> Message:
        """What client number ``at`` of all ``clients`` is handed."""

    @abstractmethod
    def keep(self, client: Client, parts: Message) -> None:
        """On the client: stores them in its memory, or wherever the inner method looks for them."""

    def open_with(self, server: Server, kept: Message) -> State:
        """The inner method's opening, with ``kept`` in State; clients may already get their parts in it."""
        state = kept.but({self.given: kept.get(self.given, torch.zeros(len(server.clients), dtype=torch.uint8))})
        handout = Handout(server, self, state)
        return self.inner.start(handout).but(state).but({self.given: handout.given})

    def round(self, server: Server, state: State) -> State:
        handout = Handout(server, self, state)
        return self.inner.round(handout, state).but({self.given: handout.given})

    def jobs(self) -> dict[str, Job]:
        """The inner method's tasks, each of which may bring a client its parts, and its own."""
        inner = {name: replace(job, work=self._receiving(job.work)) for name, job in self.inner.jobs().items()}
        return {**inner, **Method.jobs(self)}

    def _receiving(self, work: Task) -> Task:
        def receive_and_work(client: Client, brief: Message) -> Message:
            if self.once[0] in brief:
                self.keep(client, brief.only(*self.once))
            return work(client, brief.without(*self.once))

        return receive_and_work


class Handout(WrappedServer):
    """Puts a client's parts into the first brief that it gets."""

    def __init__(self, server: Server, method: ExchangeOnce, state: State):
        super().__init__(server)
        self._method, self._state = method, state
        self._places = {client: at for at, client in enumerate(self.clients)}
        self._heard_from: dict[int, Reply] = {}

    def ask(self, task: Task, brief: Brief, to: Sequence[str], at_least: int | None = None) -> Iterator[Reply]:
        if bool(self.given.all()):
            return self.inner.ask(task, brief, to, at_least)
        return self._noted(self.inner.ask(task, lambda client: self._with_parts(client, brief), to, at_least))

    def _noted(self, replies: Iterator[Reply]) -> Iterator[Reply]:
        for reply in replies:
            self._heard_from[self._places[reply.client]] = reply
            yield reply

    @property
    def given(self) -> Tensor:
        """Which clients have their parts, including those that just answered, unless their reply was refused."""
        given = self._state[self._method.given].clone()
        given[[at for at, reply in self._heard_from.items() if reply.refusal is None]] = 1
        return given

    def _with_parts(self, client: str, brief: Brief) -> Message:
        message = brief if isinstance(brief, Message) else brief(client)
        at = self._places[client]
        if self._state[self._method.given][at] or at in self._heard_from:
            return message
        return message.but(self._method.parts_for(self._state, at, len(self.clients)))
