"""Fedssyn: "Synthetic data shuffling accelerates the convergence of federated learning under data
heterogeneity".

An add-on to any method. Before the first round every client trains a generator on a share ρ of its records and
sends ñ labelled images with the class frequencies of that share, in bytes. The server joins them, draws one
permutation, and deals every client an equal part, which comes with the first brief that a client gets, whether
it gave any or not. From then on clients train on their own records and the dealt ones; the number of gradient
steps stays that of their own records.

The controls of the paper are settings: ``deal: own`` leaves every client with the images that it made itself
(nothing is sent), ``source: real`` shuffles real records, which is the upper bound and no privacy at all.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn

from understudy.complaints import checked
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message, labels_to_wire
from understudy.federation.method import Job, Method, State, task
from understudy.federation.registry import AROUND_ROUNDS, add_on
from understudy.federation.server import Brief, Reply, Server, Task, WrappedServer
from understudy.models.network import Network
from understudy.settings import Settings
from understudy.synthesis import generator as generators
from understudy.synthesis.labels import labels_from_counts, largest_remainder

POOL_X, POOL_Y, GIVEN = (
    "fedssyn.x",
    "fedssyn.y",
    "fedssyn.given",
)  # in State: the shuffled pool; who has its part


class FedssynSettings(Settings):
    generator: dict[str, Any] = Field(default="vae", validate_default=True)  # a name will do
    records: float = Field(default=0.75, gt=0, le=1)  # ρ: the share of its records that a generator sees
    images: int | None = Field(default=None, ge=0)  # ñ of each client; None: as many as it has records
    source: Literal["generator", "real"] = "generator"
    deal: Literal["shuffled", "own"] = "shuffled"

    @field_validator("generator", mode="before")
    @classmethod
    def _spelled_out(cls, given: object) -> object:
        """Every default of the generator's own settings, so that the resolved config shows them."""
        wanted = {"name": given} if isinstance(given, str) else given
        if not isinstance(wanted, dict) or not isinstance(wanted.get("name"), str):
            raise ValueError("name a generator, such as vae")
        rest = {key: value for key, value in wanted.items() if key != "name"}
        entry = generators.entry(wanted["name"])
        settings = checked(entry.settings, rest, "with.fedssyn.generator")
        return {"name": entry.name, **settings.model_dump(mode="json")}


class Fedssyn(Method):
    def __init__(self, settings: FedssynSettings, inner: Method):
        self.settings, self.inner = settings, inner
        rest = {key: value for key, value in settings.generator.items() if key != "name"}
        entry = generators.entry(settings.generator["name"])
        self.generator = entry.build(entry.settings(**rest))

    def bind(self, net: Network, rounds: int) -> None:
        super().bind(net, rounds)
        self.inner.privacy = self.privacy
        self.inner.bind(net, rounds)
        if net.problem.multilabel:
            raise UserError("fedssyn: the generators make images of one class each, not of several labels.")

    # ---- on the client

    @task(x="examples", y="examples")
    def generate(self, client: Client, brief: Message) -> Message:
        made = self._share_real(client) if self.settings.source == "real" else self._imitate(client)
        message = Message(x=made.x, y=labels_to_wire(made.y, self.net.problem.classes))
        if self.settings.deal == "shuffled":
            return message
        client.keep_dealt(message)
        return Message()

    def _imitate(self, client: Client) -> Examples:
        own, problem, rng = client.own, self.net.problem, client.rng("fedssyn generator")
        some = own.take(torch.randperm(len(own), generator=rng)[: round(self.settings.records * len(own))])
        if own.x.dtype != torch.uint8:
            raise UserError(f"fedssyn: the records of {client.id} are not uint8 pixels, which a generator needs.")
        if len(some) < self.generator.smallest:
            return Examples(torch.empty(0, *problem.shape, dtype=torch.uint8), own.y[:0])
        state = self.generator.fit(some, problem, rng)
        counts = largest_remainder(self._wanted(client), some.label_counts(problem.classes))
        labels = labels_from_counts(counts)
        return Examples(self.generator.sample(state, labels, problem, rng), labels)

    def _share_real(self, client: Client) -> Examples:
        order = torch.randperm(len(client.own), generator=client.rng("fedssyn real records"))
        return client.own.take(order[: self._wanted(client)])

    def _wanted(self, client: Client) -> int:
        return len(client.own) if self.settings.images is None else self.settings.images

    def jobs(self) -> dict[str, Job]:
        """Its own task, and those of the method underneath, which may bring a client its part."""
        inner = {name: Job(name, self._receiving(job.work), job.kinds) for name, job in self.inner.jobs().items()}
        return {**inner, **super().jobs()}

    def _receiving(self, work: Task) -> Task:
        def receive_and_work(client: Client, brief: Message) -> Message:
            if POOL_X in brief:
                client.keep_dealt(Message(x=brief[POOL_X], y=brief[POOL_Y]))
            return work(client, brief.only(*(part for part in brief if part not in (POOL_X, POOL_Y))))

        return receive_and_work

    # ---- on the server

    def start(self, server: Server) -> State:
        replies = list(server.ask(self.generate, Message(), to=server.clients))
        given = torch.zeros(len(server.clients), dtype=torch.uint8)
        if self.settings.deal == "own" or not replies:
            pool = Message({GIVEN: torch.ones_like(given)})
        else:
            x, y = torch.cat([reply["x"] for reply in replies]), torch.cat([reply["y"] for reply in replies])
            order = torch.randperm(len(y), generator=server.rng("fedssyn shuffle"))
            pool = Message({POOL_X: x[order], POOL_Y: y[order], GIVEN: given})
        dealer = Dealer(server, pool)
        return self.inner.start(dealer).but(pool).but({GIVEN: dealer.given})

    def round(self, server: Server, state: State) -> State:
        dealer = Dealer(server, state)
        return self.inner.round(dealer, state).but({GIVEN: dealer.given})

    def result(self, state: State) -> Tensor:
        return self.inner.result(state)

    @property
    def scored_at_home(self) -> bool:
        return self.inner.scored_at_home

    def model_brief(self, state: State) -> Message:
        return self.inner.model_brief(state)

    def personal(self, client: Client, model: Tensor) -> Tensor:
        return self.inner.personal(client, model)

    def dress(self, module: nn.Module, problem: Problem) -> nn.Module:
        return self.inner.dress(module, problem)

    def also(self, state: State) -> Mapping[str, Tensor]:
        return self.inner.also(state)

    def metrics(self, state: State) -> Mapping[str, float]:
        return self.inner.metrics(state)


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


@add_on("fedssyn", settings=FedssynSettings, layer=AROUND_ROUNDS)
def fedssyn(settings: FedssynSettings, method: Method) -> Method:
    return Fedssyn(settings, method)
