"""The opening in which sites agree on one scale for their floats: each sends sums over its columns, once.

Without a privacy budget the sums go as they are. Under one, ranges must be declared; then a record moves the sums by a
known norm (`data.federated_scale`), and they leave with Gaussian noise, charged before a record is touched: by default
a tenth of the budget, counted in 1/σ², which is what adds up. The number of records is one of the sums, noised alike.
"""

import math

import torch
from torch import Tensor

from understudy.data.federated_scale import FederatedScale
from understudy.data.spread import Spread
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.incoming import LARGEST
from understudy.federation.message import Message
from understudy.federation.method import Method, State, by_sums, task
from understudy.federation.server import Server
from understudy.models.network import Network
from understudy.privacy.accounting import Spending
from understudy.privacy.mechanism import clip_rows, with_noise
from understudy.privacy.planning import Spendings, solved_noise

MEAN, STD = "scale.mean", "scale.std"  # in State, and in every brief
SHARE = 0.1  # of the budget, in 1/σ²
AT_ONCE = 10_000  # records whose rows are in memory at a time


class ColumnSums(Method):
    def __init__(self, scale: FederatedScale):
        self.scale = scale

    def bind(self, net: Network, rounds: int) -> None:
        super().bind(net, rounds)
        self.features = net.problem.shape[0]
        self.scale.check(self.features)
        self.noise = self._noise()

    def _noise(self) -> float:
        """σ; 0 if nothing was promised."""
        if self.privacy is None:
            if self.scale.noise is not None:
                raise UserError("data.scale_noise spends privacy; write `privacy: {epsilon: 8, delta: 1e-5}`.")
            return 0.0
        if not self.scale.ranges:
            raise UserError(
                "data.scale: 'federated' shares sums over records, and without bounds no noise covers those; under a "
                "privacy budget declare the range of every column, such as data.ranges: {age: [0, 110]}, or write "
                "data.mean and data.std."
            )
        if self.scale.noise is None and self.privacy.epsilon is None:
            raise UserError("data.scale_noise is null, so it is solved from a budget: give privacy.epsilon.")
        return self.scale.noise or solved_noise(self.privacy, 1.0, 1) / math.sqrt(SHARE)

    @property
    def spendings(self) -> Spendings:
        return (Spending(1.0, self.noise, 1),) if self.noise else ()

    @property
    def private(self) -> bool:
        return self.noise > 0

    # ---- on the client

    @task(sums="statistics")
    def tell_sums(self, client: Client, brief: Message) -> Message:
        norm = self.scale.norm(self.features)
        if self.noise:
            client.budget.charge(rate=1.0, noise=self.noise, steps=1, clip=norm, covers=("sums",), mechanism="Gaussian")
        total = torch.zeros(1 + 2 * self.features, dtype=torch.float64)
        for part in torch.split(client.own.x, AT_ONCE):
            rows = self.scale.rows(part)
            total += (clip_rows(rows, norm) if self.noise else rows).sum(0)
        if self.noise:
            total = with_noise(total, clip=norm, noise=self.noise, rng=client.secret_rng("column sums"))
        elif float(total.abs().max()) > LARGEST:
            raise UserError(
                f"data.scale: the squares of its columns add up to more than {LARGEST:g}; declare data.ranges, or "
                "write data.mean and data.std."
            )
        return Message(sums=total)

    # ---- on the server

    @by_sums
    def start(self, server: Server) -> State:
        shape = {"sums": (1 + 2 * self.features,)}
        sums = server.sum(self.tell_sums, Message(), to=server.clients, like=shape)["sums"]
        noise = self.noise * self.scale.norm(self.features) * math.sqrt(len(server.clients))
        return message_of(self.scale.spread(sums, noise).sparing(self.net.problem.categories))

    @by_sums
    def round(self, server: Server, state: State) -> State:
        return state


def message_of(spread: Spread) -> Message:
    return Message({MEAN: spread.mean, STD: spread.std})


def spread_in(parts: Message) -> Spread:
    return Spread(_vector(parts[MEAN]), _vector(parts[STD]))


def _vector(part: Tensor) -> Tensor:
    return part.to(torch.float64).flatten()
