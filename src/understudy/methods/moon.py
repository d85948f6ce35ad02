"""MOON: "Model-Contrastive Federated Learning", algorithm 1 and equation 3.

A client keeps its network's representation z close to that of the broadcast model and away from that of its own
previous local model:

    L = CE + μ · ℓ,      ℓ = − log e^{cos(z, z_glob)/τ} / (e^{cos(z, z_glob)/τ} + e^{cos(z, z_prev)/τ})

z_glob and z_prev are constants: both models are frozen and in evaluation mode. z comes from a two-layer projection of
the features (d → d, ReLU, d → ``projection``), which is part of the model that is sent and feeds the classifier;
``projection: null`` uses the features themselves. Until a client has a previous local model, ℓ is left out; with
partial participation that model may be old. Only the model is sent.

FedCOG compares with μ = 0.01 and no projection (preset ``fedcog``); its release starts with a random network for
z_prev, which we do not do.
"""

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from understudy.base_settings import Settings
from understudy.data.problem import Problem
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.learning.local import Local
from understudy.learning.loop import Batch, Trained
from understudy.methods.shared.precompute import worth_keeping
from understudy.methods.shared.term_registration import term
from understudy.methods.shared.terms_and_rules import Kit, Parts, Term
from understudy.models.network import Network

PREVIOUS = "moon.previous"


class MoonSettings(Settings):
    mu: float = Field(default=1.0, ge=0)  # μ, weight of the contrastive loss
    temperature: float = Field(default=0.5, gt=0)  # τ of the contrastive loss
    projection: int | None = Field(default=256, ge=1)  # length of z; null: z is the network's features


class Contrast(Term):
    """Towards the broadcast model, away from the client's own previous one."""

    per_record: ClassVar[bool] = True

    def __init__(self, settings: MoonSettings, local: Local):
        self.settings, self.mu, self.local = settings, settings.mu, local

    def samples(self, steps: int, rounds: range) -> float:
        """Forward through the broadcast model and the previous one."""
        return 2 / 3 * len(rounds) * steps * self.local.batch if self.mu else 0.0

    def begin(self, client: Client, brief: Message, net: Network) -> Kit | None:
        previous = client.memory.get(PREVIOUS)
        if previous is None or self.mu == 0 or (client.shows_records and not len(client.examples)):
            return None
        w = net.vector.clone()
        if not client.shows_records:
            return {"global": w, "previous": previous}
        x = client.examples.x
        if not worth_keeping(self.local, client, 2 * _seen(net, x[:1], 1).shape[1]):
            return {"global": w, "previous": previous}
        z_global = _seen(net, x, self.local.batch)
        net.load(previous)
        z_previous = _seen(net, x, self.local.batch)
        net.load(w)
        return {"z_global": z_global, "z_previous": z_previous}

    def loss(self, kit: Kit, net: Network, w: Tensor, batch: Batch) -> Tensor:
        near, away = (F.cosine_similarity(batch.features, z) for z in self._anchors(kit, net, batch))
        return self.mu * F.softplus(
            (away - near) / self.settings.temperature
        )  # cross-entropy over two, of which the first is right

    def _anchors(self, kit: Kit, net: Network, batch: Batch) -> tuple[Tensor, Tensor]:
        if "z_global" in kit:
            assert batch.rows is not None
            return kit["z_global"][batch.rows], kit["z_previous"][batch.rows]
        z_global = _seen(net.twin(kit["global"], "moon.global"), batch.x, len(batch.x))
        return z_global, _seen(net.twin(kit["previous"], "moon.previous"), batch.x, len(batch.x))

    def end(self, client: Client, kit: Kit | None, trained: Trained) -> Parts:
        if trained.steps and self.mu:
            client.memory[PREVIOUS] = trained.model
        return {}

    def adapt_network(self, module: nn.Module, problem: Problem) -> nn.Module:
        features, head = getattr(module, "features", None), getattr(module, "head", None)
        if self.settings.projection is None or not callable(features) or not isinstance(head, nn.Module):
            return module  # a network without features is refused when it is built
        module.eval()
        with torch.no_grad():
            seen = features(problem.blank(1))
            outputs = head(seen).shape[1]  # more than the classes, if another term widened the head
        return Projected(module.train(), seen.shape[1], self.settings.projection, outputs)


def _seen(net: Network, x: Tensor, batch: int) -> Tensor:
    """(n, d) features of the frozen network."""
    with net.scoring():
        return torch.cat([net(some)[0] for some in torch.split(x, batch)])


class Projected(nn.Module):
    """A network whose features are projected, with a new classifier on the projection."""

    def __init__(self, base: nn.Module, features: int, projection: int, outputs: int):
        super().__init__()
        base.head = nn.Identity()  # its parameters must not be sent
        self.base = base
        self.projection = nn.Sequential(nn.Linear(features, features), nn.ReLU(), nn.Linear(features, projection))
        self.head = nn.Linear(projection, outputs)

    def features(self, x: Tensor) -> Tensor:
        z: Tensor = self.projection(self.base.features(x))  # type: ignore[operator]
        return z

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits


@term("moon", settings=MoonSettings, presets={"fedcog": {"mu": 0.01, "projection": None}})
def moon(settings: MoonSettings, local: Local) -> Term:
    return Contrast(settings, local)
