"""REAL, the control of "FedDM: Iterative Distribution Matching for Communication-Efficient Federated Learning".

Each client sends ``ipc`` of its real images for every class it owns, as they are (8 bits per pixel); the server trains
on them exactly as FedDM's does on synthetic ones (``methods.shared.pooled``). What FedDM gains over this is the value
of distribution matching. Private records are sent, so there is no privacy at all.

The paper does not say whether images are drawn anew each round; here they are, unless ``redraw: false``. A class with
fewer than ``ipc`` records sends each of them once. With ``keep_pool`` the server also trains on the images of earlier
rounds.
"""

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.federation.method import task
from understudy.federation.registry import method
from understudy.federation.server import Task
from understudy.methods.shared.pooled import Pooled, PooledSettings
from understudy.models.network import Network

CHOSEN = "real.chosen"  # in a client's memory


class RealSettings(PooledSettings):
    redraw: bool = True  # new images every round; false: the same throughout


@method("real", settings=RealSettings, sends="real images")
class Real(Pooled):
    settings: RealSettings

    @property
    def client_task(self) -> Task:
        return self.pick

    def bind(self, net: Network, rounds: int) -> None:
        super().bind(net, rounds)
        if self.settings.keep_pool and not self.settings.redraw:
            raise UserError(
                "method.keep_pool: with redraw: false every round brings the same images; leave out one of the two."
            )
        if self.privacy is not None and self.privacy.epsilon is not None:
            raise UserError(
                "real sends private records as they are, so no privacy.epsilon can hold; leave privacy out, "
                "or choose feddm with dp: stat."
            )

    # ---- on the client

    @task(x="examples", y="labels", weight="statistics")
    def pick(self, client: Client, brief: Message) -> Message:
        real = client.own
        chosen = self._chosen(client, real)
        return self.reply(real.x[chosen], real.y[chosen], real)

    def _chosen(self, client: Client, real: Examples) -> Tensor:
        if not self.settings.redraw and CHOSEN in client.memory:
            return client.memory[CHOSEN]
        rng, rows = client.rng("real images"), [torch.empty(0, dtype=torch.int64)]
        for c in self.owned(real):
            members = torch.nonzero(real.y == c).flatten()
            rows.append(members[torch.randperm(len(members), generator=rng)[: self.settings.ipc]])
        chosen = torch.cat(rows)
        if not self.settings.redraw:
            client.memory[CHOSEN] = chosen
        return chosen
