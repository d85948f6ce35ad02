"""The averaging family: clients train the broadcast model, the server combines their changes.

A member of the family is a few terms (what else pulls at the local model), a rule (how changes are combined)
and a slope. The server sees sums over clients, never a single reply.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Kind, Message, scalar
from understudy.federation.method import Job, Method, State, task, task_name
from understudy.federation.server import Server
from understudy.learning.local import Local
from understudy.learning.loop import Batch, Pull, Slope, Trained, plain, train
from understudy.learning.plan import passes
from understudy.models.network import Network
from understudy.settings import Settings

Kit = Mapping[str, Tensor]
Parts = dict[str, Tensor]
Shapes = dict[str, tuple[int, ...]]
SlopeFor = Callable[[Client, Message, Network], Slope]  # how a client turns a batch into a direction


class AveragingSettings(Settings):
    local: Local = Local()
    weights: Literal["size", "uniform"] = "size"  # of clients: n_k / Σ n, or equal
    buffers: Literal["average", "local", "forbid"] = "average"  # running statistics of BatchNorm and the like


class Term:
    """Something besides the data that acts on the local model. Pure: what lasts is in State or in memory."""

    down: ClassVar[tuple[str, ...]] = ()  # parts of State that ride in the brief
    up: ClassVar[Mapping[str, Kind]] = {}  # parts that `end` adds to the reply, to be summed

    def shapes(self, net: Network) -> Shapes:
        """Of the parts in ``up``."""
        return dict.fromkeys(self.up, (net.parameters,))

    def check(self, net: Network) -> None:
        """Refuses, in one sentence, a network or a problem that it cannot work with."""

    def first_state(self, net: Network) -> Parts:
        """Parts of State before round 1."""
        return {}

    def begin(self, client: Client, brief: Message, net: Network) -> Kit | None:
        """Before training, with the broadcast model in ``net``; None: nothing to do this round."""
        return {}

    def data_weight(self, kit: Kit) -> float:
        """The factor on the loss of the data."""
        return 1.0

    def loss(self, kit: Kit, net: Network, w: Tensor, batch: Batch) -> Tensor | None:
        """One number a record."""
        return None

    def gradient(self, kit: Kit, w: Tensor) -> Tensor | None:
        """In closed form, over the trainable part; added after clipping."""
        return None

    def end(self, client: Client, kit: Kit | None, trained: Trained) -> Parts:
        """After training, always called: writes memory, adds parts to be summed."""
        return {}

    def fold(self, state: State, sums: Message, clients: int) -> Parts:
        """The server's half: new parts of State. ``clients`` is the number of all clients."""
        return {}


@dataclass(frozen=True)
class _Active:
    """A term in this round, as the training loop wants it."""

    term: Term
    kit: Kit

    def data_weight(self) -> float:
        return self.term.data_weight(self.kit)

    def loss(self, net: Network, batch: Batch) -> Tensor | None:
        return self.term.loss(self.kit, net, net.vector, batch)

    def gradient(self, w: Tensor) -> Tensor | None:
        return self.term.gradient(self.kit, w)


class Rule:
    """How changes are combined. This one is the mean: w ← w + rate · Σ a_k Δ_k / Σ a_k."""

    up: ClassVar[Mapping[str, Kind]] = {"change": "weights"}

    def __init__(self, rate: float = 1.0):
        self.rate = rate

    def shapes(self, net: Network) -> Shapes:
        """Of the parts in ``up``."""
        return dict.fromkeys(self.up, (net.parameters,))

    def first_state(self, net: Network) -> Parts:
        return {}

    def share(self, change: Tensor, weight: float, trained: Trained) -> Parts:
        """On the client: its part of the sums, its weight multiplied in."""
        return {"change": change * weight}

    def step(self, w: Tensor, state: State, sums: Message, clients: int) -> Parts:
        """On the server: the new trainable part as ``model``, and what else the rule keeps in State."""
        mean = sums["change"] / sums["weight"]
        return {"model": w + self.rate * mean}

    def result(self, state: State) -> Tensor:
        """The weights to score and to save."""
        return state["model"]


class Averaging(Method):
    def __init__(
        self,
        settings: AveragingSettings,
        *,
        terms: Sequence[Term] = (),
        rule: Rule | None = None,
        slope: SlopeFor = lambda client, brief, net: plain,
    ):
        self.settings, self.slope = settings, slope
        self.terms, self.rule = tuple(terms), rule or Rule()

    def and_term(self, term: Term) -> "Averaging":
        """The same method with one more term: what an add-on does."""
        joined = copy.copy(self)
        joined.terms = (*self.terms, term)
        return joined

    def bind(self, net: Network, rounds: int) -> None:
        super().bind(net, rounds)
        if self.settings.buffers == "forbid" and net.size > net.parameters:
            raise UserError(
                "The network keeps running statistics and method.buffers is 'forbid'; "
                "choose a network without BatchNorm, or 'average' or 'local'."
            )
        for term in self.terms:
            term.check(net)
        sent = ["weight", "buffers", *self.rule.up, *(part for term in self.terms for part in term.up)]
        if len(set(sent)) < len(sent):
            raise UserError(f"Two terms would send a part of the same name: {', '.join(sorted(sent))}.")

    @property
    def scored_at_home(self) -> bool:
        """With local buffers the server has only part of any model."""
        return self.settings.buffers == "local" and self.net.size > self.net.parameters

    def effort(self, records: int) -> int:
        return self.settings.local.step_count(records) * self.settings.local.batch

    # ---- on the client

    @task()  # what it sends depends on rule and terms: see `jobs`
    def train(self, client: Client, brief: Message) -> Message:
        w = self._with_buffers(client, brief["model"])
        self.net.load(w)
        kits = [term.begin(client, brief, self.net) for term in self.terms]
        pulls = [_Active(term, kit) for term, kit in zip(self.terms, kits, strict=True) if kit is not None]
        trained = self.fit(client, brief, w, pulls)
        parts = self._shares(client, trained)
        for term, kit in zip(self.terms, kits, strict=True):
            parts |= term.end(client, kit, trained)
        return Message(parts)

    def plan(self, client: Client) -> Tensor:
        """Which records make up which batch."""
        local = self.settings.local
        steps = local.step_count(len(client.own))
        rng = client.rng("batches")
        return passes(len(client.examples), steps, local.batch, rng, drop_last=local.drop_last)

    def fit(self, client: Client, brief: Message, w: Tensor, pulls: Sequence[Pull]) -> Trained:
        local = self.settings.local
        return train(
            self.net,
            w,
            client.examples,
            self.plan(client),
            local,
            rate=local.rate(client.round, self.rounds),
            records=len(client.own),
            pulls=pulls,
            slope=self.slope(client, brief, self.net),
            rng=client.rng("augmentation"),
        )

    def personal(self, client: Client, model: Tensor) -> Tensor:
        return self._with_buffers(client, model)

    def _with_buffers(self, client: Client, model: Tensor) -> Tensor:
        if self.settings.buffers != "local":
            return model
        kept = client.memory.get("buffers", self.net.initial()[self.net.buffers])
        return torch.cat([model, kept])

    def _shares(self, client: Client, trained: Trained) -> Parts:
        net, settings = self.net, self.settings
        weight = float(trained.records if settings.weights == "size" else trained.records > 0)
        change = trained.model - trained.start
        parts = self.rule.share(change[net.trainable], weight, trained)
        parts["weight"] = scalar(weight)
        if settings.buffers == "average" and net.size > net.parameters:
            parts["buffers"] = change[net.buffers] * weight
        if settings.buffers == "local":
            client.memory["buffers"] = trained.model[net.buffers]
        return parts

    # ---- on the server

    def start(self, server: Server) -> State:
        state = super().start(server).but(self.rule.first_state(self.net))
        for term in self.terms:
            state = state.but(term.first_state(self.net))
        return state

    def round(self, server: Server, state: State) -> State:
        sums = server.sum(self.train, self._brief(state), to=server.cohort(), like=self._shapes())
        if float(sums["weight"]) == 0:
            return state  # nobody had a record
        net, w = self.net, state["model"]
        parts = self.rule.step(w[net.trainable], state, sums, len(server.clients))
        buffers = w[net.buffers]
        if "buffers" in sums:
            buffers = buffers + sums["buffers"] / sums["weight"]
        parts["model"] = torch.cat([parts["model"], buffers]).to(torch.float32)
        for term in self.terms:
            parts |= term.fold(state, sums, len(server.clients))
        return state.but(parts)

    def model_brief(self, state: State) -> Message:
        return Message(model=state["model"][self.net.trainable] if self.settings.buffers == "local" else state["model"])

    def _brief(self, state: State) -> Message:
        return self.model_brief(state).but({part: state[part] for term in self.terms for part in term.down})

    def result(self, state: State) -> Tensor:
        return self.rule.result(state)

    def _shapes(self) -> Shapes:
        """Of everything that a client sends up to be summed."""
        net, shapes = self.net, {"weight": (), **self.rule.shapes(self.net)}
        if self.settings.buffers == "average" and net.size > net.parameters:
            shapes["buffers"] = (net.size - net.parameters,)
        for term in self.terms:
            shapes |= term.shapes(net)
        return shapes

    def jobs(self) -> dict[str, Job]:
        kinds: dict[str, Kind] = {"weight": "scalars", **self.rule.up}
        if self.settings.buffers == "average":
            kinds["buffers"] = "weights"
        for term in self.terms:
            kinds |= term.up
        name = task_name(self.train)
        return {**super().jobs(), name: Job(name, self.train, kinds)}
