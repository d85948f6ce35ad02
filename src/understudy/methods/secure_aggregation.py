"""Secure aggregation: "Secure Single-Server Aggregation with (Poly)Logarithmic Overhead" (SecAgg+), after "Practical
Secure Aggregation for Privacy-Preserving Machine Learning".

An add-on to methods whose server only adds up what clients send. It gets the sum and nothing else: every input arrives
under masks that cancel in the sum. A sum takes four exchanges. Client i has a number; N(i) are its neighbours on a
random ring (everyone, if ``neighbours`` k is enough for that); its neighbourhood is N(i) and itself; and t is
``threshold`` times the size of the neighbourhood, rounded up, always more than half.

    1  advertise  i sends two public keys, of c_i for boxes and of s_i for masks
    2  share      i draws a seed b_i, splits s_i and b_i among its neighbourhood (Shamir, t shares open it), and sends
                  each neighbour its two shares in a box that only that neighbour can open; to the server it sends a
                  hash of every share and of b_i, which the server passes on to the holder of the share
    3  the task   i works, rounds its numbers x_i to a grid, and sends, modulo 2^bits,
                      y_i = x_i + PRG(b_i) + Σ_{j ∈ N(i), i < j} PRG(s_ij) − Σ_{j ∈ N(i), i > j} PRG(s_ij)
                  where s_ij is the key that i and j agree on, over neighbours whose boxes arrived; and a hash of each
                  s_ij
    4  unmask     for each client whose y arrived, i sends its share of b; for each that dropped out after phase 2, its
                  share of s; never both for one client; it also reports boxes that do not open, or do not match their
                  hashes

The server recovers b of everyone in the sum and s of everyone that dropped out, computes their masks and removes them.
It can do so as long as t clients of each neighbourhood answer; otherwise the round is undone. The hashes show who is at
fault. A share that does not match is refused, along with its sender's answer. A client is excluded for the rest of the
run if its s_ij differs from that of more than |neighbourhood| − t of its neighbours (and more than one); if that many
could not open its boxes, or it says so of that many; or if its shares match and yet give another b or s. So one client
can undo one round at most, unless all of a neighbourhood are needed.

The grid is ``bits`` wide, with the finest step 2^−f for which n clients within ±``range`` fit. A sum is off by at most
n · step / 2, and whole numbers are exact. Keys and seeds come from the operating system, never from the run's seed; the
model has the same bits whatever they are. Both sides must follow the protocol: a dishonest server is not covered.

Departures from the paper: i itself keeps a share of b_i, as in the earlier paper, so that even a few clients can lose
one; secrets are seeds of 16 bytes, from which key pairs are derived; s_ij is bound to the numbers i and j; the hashes.
"""

from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from pydantic import Field, field_validator
from torch import Tensor

from understudy.base_settings import Settings
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.failures import NotFinite
from understudy.federation.message import Message
from understudy.federation.method import Job, Method, State, only_sums, task
from understudy.federation.registry import AROUND_SUMS, add_on
from understudy.federation.secure import keys, party
from understudy.federation.secure.summing import Phases, SecureServer
from understudy.federation.server import Server, Task
from understudy.federation.wrapped import WrappedMethod
from understudy.models.network import Network


class SecureAggregationSettings(Settings):
    range: float = Field(default=1e6, gt=0)  # largest number in a reply; changes are sent multiplied by their weight
    bits: Literal[32, 40, 48, 56, 64] = 48  # bits per masked number on the wire
    overflow: Literal["refuse", "clip"] = "refuse"  # what to do with a number beyond range
    threshold: float = Field(default=0.6, gt=0.5, le=1)  # t, as a share of a neighbourhood
    neighbours: int = Field(default=30, ge=2)  # k, neighbours of each client
    fewest: int = Field(default=3, ge=2)  # fewest clients in a sum; below that the round is undone

    @field_validator("neighbours")
    @classmethod
    def _as_many_on_either_side(cls, given: int) -> int:
        if given % 2:
            raise ValueError("it must be even, because half of them sit on either side")
        return given


class SecureAggregation(WrappedMethod):
    def __init__(self, settings: SecureAggregationSettings, inner: Method):
        super().__init__(inner)
        self.settings = settings
        self.rules = party.Rules(settings.threshold, settings.fewest, settings.neighbours)

    def bind(self, net: Network, rounds: int) -> None:
        keys.need_packages()
        super().bind(net, rounds)

    @property
    def phases(self) -> Phases:
        settings = self.settings
        return Phases(self.advertise, self.share, self.unmask, self.rules, settings.range, settings.bits)

    # ---- on the client

    @task(keys="keys")
    def advertise(self, client: Client, brief: Message) -> Message:
        return Message(keys=party.advertise(client.memory, client.round))

    @task(shares="keys", commitments="keys", mask="keys")
    def share(self, client: Client, brief: Message) -> Message:
        return party.share(client.memory, client.round, brief, self.rules)

    @task(shares="keys", opened="keys")
    def unmask(self, client: Client, brief: Message) -> Message:
        return party.unmask(client.memory, client.round, brief, self.rules)

    def local_model(self, brief: Message, reply: Message) -> Tensor | None:
        """What a single client sends is masked."""
        return None

    def jobs(self) -> dict[str, Job]:
        """The tasks of the underlying method, with what they send under masks."""
        inner = {
            name: replace(job, work=self._under_masks(job), kinds={**job.kinds, party.AGREED: "keys"})
            for name, job in self.inner.jobs().items()
            if job.kinds
        }
        return {**super().jobs(), **inner}

    def _under_masks(self, job: Job) -> Task:
        def work_and_mask(client: Client, brief: Message) -> Message:
            if party.BOXES not in brief:
                raise UserError(f"{job.name} sends only under masks, but the brief has no boxes for them.")
            party.receive(client.memory, client.round, brief, self.rules)
            reply = job.work(client, brief.only(*(part for part in brief if not part.startswith(party.PREFIX))))
            return self._masked(client, reply, int(brief[party.CLIENTS]))

        return work_and_mask

    def _masked(self, client: Client, reply: Message, clients: int) -> Message:
        broken = reply.not_finite()  # under masks it would go unnoticed
        if broken:
            raise NotFinite(broken)
        grid, overflow = self.phases.grid(clients), self.settings.overflow
        whole = [grid.whole(numbers, part=part, overflow=overflow) for part, numbers in reply.items()]
        values = np.concatenate(whole)
        agreed = party.mask(client.memory, client.round, values)
        packed = torch.split(grid.pack(values), [len(part) for part in whole])
        return Message({**dict(zip(reply, packed, strict=True)), party.AGREED: agreed})

    # ---- on the server

    def start(self, server: Server) -> State:
        there = len(server.cohort())
        if there < self.settings.fewest:
            raise UserError(
                f"with.secure-aggregation: {there} clients take part in a round, and a sum of fewer than "
                f"{self.settings.fewest} reveals too much about each; raise method.cohort, or lower fewest."
            )
        self.phases.grid(there)  # refuses sums that do not fit
        return super().start(server)

    def seen(self, server: Server) -> Server:
        return SecureServer(server, self.phases)


@add_on(
    "secure-aggregation",
    settings=SecureAggregationSettings,
    layer=AROUND_SUMS,
    family="the server sees only sums",
    sends="the same under masks, and keys",
)
def secure_aggregation(settings: SecureAggregationSettings, method: Method) -> Method:
    if not only_sums(method):
        raise UserError(
            f"secure-aggregation hides each client in a sum, but the server of {type(method).__name__} may ask for "
            "single replies; leave it out, or use a method that averages, such as fedavg."
        )
    return SecureAggregation(settings, method)
