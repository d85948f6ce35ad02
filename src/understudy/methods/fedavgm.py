"""FedAvgM: "Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification".

Clients train as in FedAvg. With w̄ the mean of their models, the server treats w − w̄ as a gradient and steps with
momentum β:

    v ← β v + (w − w̄),      w ← w − η_g v

v stays on the server. Two releases take shorter steps (``damping``), so their β and η_g are not comparable:

    moon      v ← β v + (1 − β)(w − w̄), in the code of "Model-Contrastive Federated Learning"
    fedcog    w ← w − η_g v / (1 + β) in every round but the first, in the code of FedCOG
"""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from understudy.federation.message import Message
from understudy.federation.method import State
from understudy.federation.registry import method
from understudy.methods.shared.averaging import Averaging, AveragingSettings
from understudy.methods.shared.terms_and_rules import Parts, Rule

Damping = Literal["none", "moon", "fedcog"]
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "fedcog-paper": {"server_momentum": 0.1},
    "fedcog-script": {"server_momentum": 0.9, "damping": "fedcog"},
}


class FedAvgMSettings(AveragingSettings):
    server_momentum: float = Field(default=0.9, ge=0, lt=1)  # β, momentum of the server
    server_lr: float = Field(default=1.0, gt=0)  # η_g, learning rate of the server
    damping: Damping = "none"  # shorter server steps, as in two releases


class Momentum(Rule):
    def __init__(self, beta: float, rate: float, damping: Damping):
        super().__init__(rate)
        self.beta, self.damping = beta, damping

    def first_state(self, size: int) -> Parts:
        return {"momentum": torch.zeros(size)}

    def step(self, w: Tensor, state: State, sums: Message, clients: int) -> Parts:
        before = state["momentum"].double()
        back = -sums["change"] / sums["weight"]  # w − w̄
        v = self.beta * before + (1 - self.beta if self.damping == "moon" else 1) * back
        shorter = 1 + self.beta if self.damping == "fedcog" and bool(before.any()) else 1
        return {"model": w - self.rate * v / shorter, "momentum": v.to(torch.float32)}


@method("fedavgm", settings=FedAvgMSettings, presets=PRESETS)
def fedavgm(settings: FedAvgMSettings) -> Averaging:
    return Averaging(settings, rule=Momentum(settings.server_momentum, settings.server_lr, settings.damping))
