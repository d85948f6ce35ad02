"""Ditto: "Ditto: Fair and Robust Federated Learning Through Personalization", algorithm 1.

FedAvg on w, and beside it a model v_k of each client's own. In the same pass, on the same batches,

    w   ← w − η ∇f_k(w)                            sent up, averaged
    v_k ← v_k − η ( ∇f_k(v_k) + λ (v_k − w_t) )    kept

where w_t is the broadcast model, not the one on its way. v_k starts at the initial model w_0, stays in the client's
memory from round to round and is never sent; it is what a client scores at home. Since v_k only looks at w_t, the
plan of batches is walked twice, first for w: the global model is FedAvg's to the last bit. Terms of add-ons act on w
alone, the personal objective stays the paper's. The authors' code averages with equal weights (preset ``release``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.federation.registry import method
from understudy.learning.loop import Pull, Trained
from understudy.methods.shared.averaging import Averaging, AveragingSettings

PERSONAL = "personal"  # in memory: v_k, with running statistics of its own


class DittoSettings(AveragingSettings):
    weights: Literal["size", "uniform"] = "uniform"  # of clients in the mean; equal in the authors' code
    pull: float = Field(default=1.0, ge=0)  # λ, towards the global model; the paper searches 0.1, 1 and 2


@dataclass(frozen=True)
class Tether(Pull):
    """λ (v − w_t), over the trainable part."""

    strength: float
    anchor: Tensor

    def gradient(self, w: Tensor) -> Tensor:
        return self.strength * (w - self.anchor)


@method("ditto", settings=DittoSettings, family="personal models")
class Ditto(Averaging):
    settings: DittoSettings

    def __init__(self, settings: DittoSettings):
        super().__init__(settings)

    def effort(self, records: int, classes: int) -> int:
        return 2 * super().effort(records, classes)

    def fit(self, client: Client, brief: Message, w: Tensor, pulls: Sequence[Pull]) -> Trained:
        plan, changes = self.plan(client), client.rng("augmentation")
        again = torch.Generator().set_state(changes.get_state())  # the same batches, also where they are augmented
        shared = self.walk(client, w, plan, self.descent(client, pulls, self.slope(client, brief, self.net)))
        tether = Tether(self.settings.pull, w[self.net.trainable].to(self.net.device))
        personal = self.walk(client, self._own(client), plan, self.descent(client, [tether]), again)
        if personal.steps:
            client.memory[PERSONAL] = personal.model
        return shared

    def _own(self, client: Client) -> Tensor:
        return client.memory.get(PERSONAL, self.net.initial())

    def personal(self, client: Client, model: Tensor) -> Tensor:
        return self._own(client)

    def personal_model(self, client: Client, trained: Trained) -> Tensor:
        return self._own(client)
