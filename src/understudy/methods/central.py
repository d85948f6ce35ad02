"""Central training, the control of "Synthetic data shuffling accelerates the convergence of federated learning under
data heterogeneity": one model, trained on the records of all clients.

Each client sends its records once, when it is first asked. The server trains on the pool: a round is ``local.epochs``
passes over it, continuing from the previous round. The gap between a federated method and this one is the cost of
federation. Private records are sent as they are, so there is no privacy at all.

``source: generator`` is the other central control: clients send images made by a generator, as in Fedssyn
(``generator``, ``records`` and ``images`` mean the same there), and the server trains on those alone. With the add-on
fedssyn, each client sends its real records together with the images it was dealt.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message, labels_from_wire, labels_to_wire
from understudy.federation.method import ANYTHING, ONLY_NUMBERS, Method, State, Takes, task
from understudy.federation.registry import method
from understudy.federation.server import Reply, Server
from understudy.learning.local import Local
from understudy.learning.loop import Descent
from understudy.learning.pool import PoolFeed, learn_from_pool
from understudy.methods.shared.imitation import Imitation, ImitationSettings, check_single_labels
from understudy.methods.shared.outliers import learnt_from
from understudy.methods.shared.pooled import of_one_kind, why_unfit
from understudy.methods.shared.sent_sets import SentSets
from understudy.models.network import Network

POOL = SentSets("central.")


class CentralSettings(ImitationSettings):
    where: ClassVar[str] = "method.generator"

    source: Literal["real", "generator"] = "real"  # what clients send: their records, or images from a generator
    local: Local = Local()  # how the server trains in a round


@method(
    "central",
    settings=CentralSettings,
    family="no federation, to compare with",
    sends="all its records, or images in their place",
)
class Central(Method):
    def __init__(self, settings: CentralSettings):
        self.settings, self.generator = settings, settings.built()

    @property
    def takes(self) -> Takes:
        return ONLY_NUMBERS if self.settings.source == "generator" else ANYTHING

    def bind(self, net: Network, rounds: int) -> None:
        super().bind(net, rounds)
        if self.settings.source == "generator":
            check_single_labels(net.problem)
            self.generator.check(net.problem)
        if self.privacy is not None and self.privacy.epsilon is not None:
            raise UserError(
                "central sends records, or images made from them, without noise, so no privacy.epsilon can hold; "
                "leave privacy out."
            )

    def effort(self, records: int, classes: int) -> int:
        return self.settings.local.step_count(records) * self.settings.local.batch

    # ---- on the client

    @task(x="examples", y="labels")
    def hand_over(self, client: Client, brief: Message) -> Message:
        real = self.settings.source == "real"
        sent = client.examples if real else Imitation(self.settings, self.generator, self.net.problem).of(client)
        return Message(x=sent.x, y=labels_to_wire(sent.y, self.net.problem.classes))

    # ---- on the server

    def round(self, server: Server, state: State) -> State:
        replies = POOL.ask_new(server, state, self.hand_over, lambda reply: why_unfit(reply, self.net))
        known = [sent["x"].dtype for sent in POOL.kept(state, server.clients)]
        return state.but(learnt_from(of_one_kind(replies, known), lambda some: self._with(server, state, some)))

    def _with(self, server: Server, state: State, replies: Sequence[Reply]) -> Message:
        """The new records, and the model trained further on the whole pool."""
        sent = POOL.parts(state, replies)
        return Message(sent, model=self._learn(server, state.but(sent)))

    def _learn(self, server: Server, state: State) -> Tensor:
        sent = POOL.kept(state, server.clients)
        if not any(len(one["y"]) for one in sent):
            return state["model"]
        x, y = (torch.cat([one[part] for one in sent]) for part in ("x", "y"))
        pool = PoolFeed(Examples(x, labels_from_wire(y)), server.rng("pool"), server.rng("augmentation"))
        local = self.settings.local
        descent = Descent(local, local.rate(server.round, self.rounds))
        return learn_from_pool(self.net, state["model"], pool, descent).model
