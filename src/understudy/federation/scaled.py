"""Any method on records that sites scale by what they agreed on in the opening (`federation.column_sums`).

The scale is in State, and every brief carries it, 16 bytes per feature: so a client that comes late, or lost its
memory, scales like the others. Tasks and scores see scaled records only.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from understudy.data.spread import Spread
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.column_sums import MEAN, STD, ColumnSums, message_of, spread_in
from understudy.federation.message import Message
from understudy.federation.method import Job, Method, State, Summed
from understudy.federation.server import Brief, Reply, Server, Task, WrappedServer
from understudy.federation.wrapped import WrappedMethod
from understudy.models.network import Network


class Scaled(WrappedMethod):
    """``around_sums`` is what add-ons put around a method whose server only sees sums, such as masks."""

    def __init__(self, sums: ColumnSums, inner: Method, around_sums: Callable[[Method], Method]):
        super().__init__(inner)
        self.sums, self.opening = sums, around_sums(sums)

    def bind(self, net: Network, rounds: int) -> None:
        self.opening.privacy = self.privacy
        self.opening.bind(net, rounds)
        before = self.spent_before
        self.spent_before = lambda own: (*before(own), *self.sums.spendings)
        super().bind(net, rounds)

    # ---- on the client

    def prepared(self, client: Client, brief: Message) -> Client:
        if MEAN not in brief:
            raise UserError("the brief came without the scale of the columns; server and site must share one config.")
        return self.inner.prepared(_scaled(client, spread_in(brief)), brief.without(MEAN, STD))

    def jobs(self) -> dict[str, Job]:
        """The inner method's tasks on scaled records; the opening's on records as they are."""
        before = self.opening.jobs()
        inner = {name: self._on_scaled(job, before.get(name)) for name, job in self.inner.jobs().items()}
        return {**before, **inner}

    def _on_scaled(self, job: Job, before: Job | None) -> Job:
        """``before``: the same task in the opening, such as an exchange of keys."""

        def scale_and_work(client: Client, brief: Message) -> Message:
            if MEAN not in brief and before is not None:
                return before.work(client, brief)
            return job.work(self.prepared(client, brief), brief.without(MEAN, STD))

        return replace(job, work=scale_and_work)

    # ---- on the server

    def start(self, server: Server) -> State:
        scale = self.opening.start(server).only(MEAN, STD)
        return self.inner.start(WithScale(server, scale)).but(scale)

    def round(self, server: Server, state: State) -> State:
        scale = state.only(MEAN, STD)
        return self.inner.round(WithScale(server, scale), state).but(scale)

    def scaling(self, state: State) -> Spread | None:
        return spread_in(state)

    def model_brief(self, state: State) -> Message:
        return self.inner.model_brief(state).but(message_of(spread_in(state)))

    # ---- for an audit

    def summed(self, task: str, brief: Message) -> Summed | None:
        found = self.inner.summed(task, brief.without(MEAN, STD))
        if found is None:
            return None
        rows, spread = found.rows, spread_in(brief)
        return replace(found, rows=lambda records: rows(spread.applied(records)))


class WithScale(WrappedServer):
    """Puts the scale into every brief."""

    def __init__(self, server: Server, scale: Message):
        super().__init__(server)
        self._scale = scale

    def ask(self, task: Task, brief: Brief, to: Sequence[str], at_least: int | None = None) -> Iterator[Reply]:
        if isinstance(brief, Message):
            return self.inner.ask(task, brief.but(self._scale), to, at_least)
        return self.inner.ask(task, lambda client: brief(client).but(self._scale), to, at_least)


def _scaled(client: Client, spread: Spread) -> Client:
    """The same client, with its memory, budget and streams."""
    seen = copy.copy(client)
    seen.own, seen.held_out, seen.common = spread.applied(client.own), spread.applied(client.held_out), None
    if client.common is not None:
        seen.common = spread.applied(client.common)
    return seen
