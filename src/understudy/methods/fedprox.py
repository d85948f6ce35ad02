"""FedProx: "Federated Optimization in Heterogeneous Networks", equation 2.

A client minimises its loss plus a spring to the broadcast model w over the trainable parameters,

    f_k(θ) + μ/2 · ‖θ − w‖²,

whose gradient μ (θ − w) is added in closed form after clipping and noise, so it also works under privacy. The server
averages as in FedAvg; μ = 0 is FedAvg.

FedLAP's release writes 0.1 · ‖θ − w‖² without the half, which is μ = 0.2 here. FedDM's table prints half the unsquared
norm, a slip; its three values of μ are presets.
"""

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from understudy.base_settings import Settings
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.learning.local import Local
from understudy.methods.shared.term_registration import term
from understudy.methods.shared.terms_and_rules import Kit, Term
from understudy.models.network import Network

PRESETS = {
    "fedcog": {"mu": 0.01},
    "fedssyn": {"mu": 0.01},
    "fedlap": {"mu": 0.2},
    "feddm-weak": {"mu": 0.01},
    "feddm-medium": {"mu": 0.1},
    "feddm-strong": {"mu": 1.0},
}


class ProximalSettings(Settings):
    mu: float = Field(default=0.01, ge=0)  # μ of the proximal term


class Proximal(Term):
    """Keeps the local model near the broadcast one."""

    zero_at_start: ClassVar[bool] = True
    in_rows: ClassVar[tuple[str, ...] | None] = ("anchor",)

    def __init__(self, mu: float):
        self.mu = mu

    def begin(self, client: Client, brief: Message, net: Network) -> Kit | None:
        return {"anchor": net.vector[net.trainable].clone()} if self.mu else None

    def gradient(self, kit: Kit, w: Tensor) -> Tensor:
        return torch.sub(w, kit["anchor"]).mul_(self.mu)


@term("fedprox", settings=ProximalSettings, presets=PRESETS)
def fedprox(settings: ProximalSettings, _: Local) -> Term:
    return Proximal(settings.mu)
