"""A method wrapped by an add-on: whatever the add-on does not change is the inner method's."""

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.federation.method import Dealt, Job, Method, State, Summed
from understudy.federation.server import Server
from understudy.models.network import Network
from understudy.privacy.published import PublishedClaim


class WrappedMethod(Method):
    def __init__(self, inner: Method):
        self.inner = inner

    def bind(self, net: Network, rounds: int) -> None:
        super().bind(net, rounds)
        self.inner.privacy, self.inner.spent_before = self.privacy, self.spent_before
        self.inner.bind(net, rounds)

    def seen(self, server: Server) -> Server:
        """The server as the inner method sees it."""
        return server

    def start(self, server: Server) -> State:
        return self.inner.start(self.seen(server))

    def round(self, server: Server, state: State) -> State:
        return self.inner.round(self.seen(server), state)

    def jobs(self) -> dict[str, Job]:
        return {**self.inner.jobs(), **super().jobs()}

    def begun_at(self, state: State, model: Tensor) -> State:
        return self.inner.begun_at(state, model)

    def result(self, state: State) -> Tensor:
        return self.inner.result(state)

    def adapt_network(self, module: nn.Module, problem: Problem) -> nn.Module:
        return self.inner.adapt_network(module, problem)

    def further_models(self, state: State) -> Mapping[str, Tensor]:
        return self.inner.further_models(state)

    def metrics(self, state: State) -> Mapping[str, float]:
        return self.inner.metrics(state)

    def remarks(self, state: State) -> Sequence[str]:
        return self.inner.remarks(state)

    def dealt(self, state: State, clients: Sequence[str]) -> Mapping[str, Dealt]:
        return self.inner.dealt(state, clients)

    def local_model(self, brief: Message, reply: Message) -> Tensor | None:
        return self.inner.local_model(brief, reply)

    def summed(self, task: str, brief: Message) -> Summed | None:
        return self.inner.summed(task, brief)

    def personal(self, client: Client, model: Tensor) -> Tensor:
        return self.inner.personal(client, model)

    @property
    def private(self) -> bool:
        return self.inner.private

    def published_claim(self, own: Examples) -> PublishedClaim | None:
        return self.inner.published_claim(own)

    @property
    def begins_anew(self) -> bool:
        return self.inner.begins_anew

    @property
    def scored_at_home(self) -> bool:
        return self.inner.scored_at_home

    def model_brief(self, state: State) -> Message:
        return self.inner.model_brief(state)

    def effort(self, records: int, classes: int) -> int:
        return self.inner.effort(records, classes)

    def samples(self, records: int, classes: int, rounds: range) -> float:
        return self.inner.samples(records, classes, rounds)
