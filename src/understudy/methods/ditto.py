"""Ditto: "Ditto: Fair and Robust Federated Learning Through Personalization", algorithm 1.

FedAvg on w, and beside it a personal model v_k for each client. In the same pass, on the same batches,

    w   ← w − η ∇f_k(w)                            sent up, averaged
    v_k ← v_k − η ( ∇f_k(v_k) + λ (v_k − w_t) )    kept

where w_t is the broadcast model, not the local one in training. v_k starts at the initial model w_0, stays in the
client's memory between rounds and is never sent; it is the model that a client scores at home. Since v_k depends on w_t
only, the batches are run through twice, first for w: the global model is FedAvg's to the last bit. Terms of add-ons act
on w alone, so the personal objective stays the paper's. Clients count equally by default, as in the authors' code.
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

PERSONAL = "personal"  # in memory: v_k, with its own running statistics


class DittoSettings(AveragingSettings):
    weights: Literal["size", "uniform"] = "uniform"  # weights of clients in the mean; equal in the authors' code
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

    def effort(self, records: int, classes: int) -> int:
        return 2 * super().effort(records, classes)

    def fit(self, client: Client, brief: Message, w: Tensor, pulls: Sequence[Pull]) -> Trained:
        plan, changes = self.plan(client), client.rng("augmentation")
        again = torch.Generator().set_state(changes.get_state())  # the same batches, including their augmentation
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
