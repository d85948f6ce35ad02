"""FedAdagrad, FedAdam and FedYogi: "Adaptive Federated Optimization", algorithm 2.

Clients train as in FedAvg. The server uses the mean of their changes Δ as the direction of a step whose size adapts to
each coordinate:

    m ← β₁ m + (1 − β₁) Δ

    v ← v + Δ²                               fedadagrad
    v ← β₂ v + (1 − β₂) Δ²                   fedadam
    v ← v − (1 − β₂) Δ² · sign(v − Δ²)       fedyogi

    w ← w + η · m / (√v + τ)

m starts at 0 and v at τ², and neither is bias-corrected, as in the paper. Both stay on the server. FedAdagrad has no
momentum by default (β₁ = 0), as in the paper's experiments. Wherever the changes agree, a coordinate moves by about η,
so FedAvg's rate of 1 is far too large here.
"""

from collections.abc import Callable

import torch
from pydantic import Field
from torch import Tensor

from understudy.federation.message import Message
from understudy.federation.method import State
from understudy.federation.registry import method
from understudy.methods.shared.averaging import Averaging, AveragingSettings
from understudy.methods.shared.terms_and_rules import Parts, Rule

Second = Callable[[Tensor, Tensor], Tensor]  # from v and Δ² to the new v


class FedAdagradSettings(AveragingSettings):
    server_lr: float = Field(default=0.1, gt=0)  # η, learning rate of the server
    beta1: float = Field(default=0.0, ge=0, lt=1)  # β₁, momentum of the server
    tau: float = Field(default=1e-3, gt=0)  # τ; smaller is more adaptive


class FedAdamSettings(FedAdagradSettings):
    beta1: float = Field(default=0.9, ge=0, lt=1)  # β₁, momentum of the server
    beta2: float = Field(default=0.99, ge=0, lt=1)  # β₂, decay of the squared changes


class Adaptive(Rule):
    def __init__(self, settings: FedAdagradSettings, second: Second):
        super().__init__(settings.server_lr)
        self.settings, self.second = settings, second

    def first_state(self, size: int) -> Parts:
        return {"mean": torch.zeros(size), "square": torch.full((size,), self.settings.tau**2)}

    def step(self, w: Tensor, state: State, sums: Message, clients: int) -> Parts:
        change, beta = sums["change"] / sums["weight"], self.settings.beta1
        m = beta * state["mean"].double() + (1 - beta) * change
        v = self.second(state["square"].double(), change.square())
        new = w + self.rate * m / (v.sqrt() + self.settings.tau)
        return {"model": new, "mean": m.to(torch.float32), "square": v.to(torch.float32)}


@method("fedadagrad", settings=FedAdagradSettings)
def fedadagrad(settings: FedAdagradSettings) -> Averaging:
    return Averaging(settings, rule=Adaptive(settings, lambda v, square: v + square))


@method("fedadam", settings=FedAdamSettings)
def fedadam(settings: FedAdamSettings) -> Averaging:
    beta = settings.beta2
    return Averaging(settings, rule=Adaptive(settings, lambda v, square: beta * v + (1 - beta) * square))


@method("fedyogi", settings=FedAdamSettings)
def fedyogi(settings: FedAdamSettings) -> Averaging:
    beta = settings.beta2
    return Averaging(settings, rule=Adaptive(settings, lambda v, square: v - (1 - beta) * square * (v - square).sign()))
