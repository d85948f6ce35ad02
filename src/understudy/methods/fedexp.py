"""FedExP: "FedExP: Speeding Up Federated Averaging via Extrapolation", algorithm 1.

Clients train as in FedAvg. Where their changes Δ_k point in different directions, the mean Δ̄ is short, and the server
goes further along it:

    η_g = max(1, Σ p_k ‖Δ_k‖² / (2 (‖Δ̄‖² + ε))),      w ← w + η_g Δ̄

over the trainable parameters only, with p_k the clients' weights. Since the server sees only sums, each client sends
the squared norm of its change beside it. With a single client η_g = 1, which is FedAvg.

The authors' code departs from the formula in three ways, each available as a setting: it multiplies ε by the number of
participants, lets ε fall with the square of the local rate, and evaluates the mean of the last two iterates (after the
first round, that iterate alone).
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from understudy.federation.message import Kind, Message
from understudy.federation.method import State, by_sums
from understudy.federation.registry import method
from understudy.federation.server import Server
from understudy.learning.loop import Trained
from understudy.methods.shared.averaging import Averaging, AveragingSettings
from understudy.methods.shared.terms_and_rules import Parts, Rule, Shapes

_FLAGS = {"epsilon_times_clients": True, "epsilon_falls": True, "average_last_two": True}
_LOCAL = {"schedule": "exponential", "decay": 0.998, "clip": 10.0, "weight_decay": 1e-4}
PRESETS = {
    "authors": {**_FLAGS, "local": _LOCAL},
    "authors-emnist": {**_FLAGS, "epsilon": 0.1, "local": _LOCAL},
}


class FedExPSettings(AveragingSettings):
    epsilon: float = Field(default=1e-3, ge=0)  # ε in the server's step
    epsilon_times_clients: bool = False  # ε |S| instead of ε
    epsilon_falls: bool = False  # multiply ε by the square of the factor by which local.schedule lowers the rate
    average_last_two: bool = False  # score and save the mean of the last two models; keep training from the last


class Extrapolated(Rule):
    up: ClassVar[Mapping[str, Kind]] = {"change": "weights", "squares": "scalars"}
    least: ClassVar[Mapping[str, float]] = {"squares": 0.0}

    def __init__(self, settings: FedExPSettings):
        super().__init__()
        self.settings = settings

    def shapes(self, size: int) -> Shapes:
        return {"change": (size,), "squares": (2,)}

    def first_state(self, size: int) -> Parts:
        parts = {"epsilon": torch.tensor(self.settings.epsilon, dtype=torch.float64)}
        return parts | ({"previous": torch.empty(0)} if self.settings.average_last_two else {})

    def share(self, change: Tensor, weight: float, trained: Trained) -> Parts:
        square = float(change.double().square().sum())
        counted = float(trained.records > 0)
        return {"change": change * weight, "squares": torch.tensor([weight * square, counted])}

    def step(self, w: Tensor, state: State, sums: Message, clients: int) -> Parts:
        mean = sums["change"] / sums["weight"]
        square, participants = sums["squares"]
        epsilon = state["epsilon"] * (participants if self.settings.epsilon_times_clients else 1)
        below = 2 * (mean.square().sum() + epsilon)
        rate = max(1.0, float(square / sums["weight"] / below)) if float(below) else 1.0
        new = w + rate * mean
        if not self.settings.average_last_two:
            return {"model": new}
        # The iterate before the newest one; the initial model does not count.
        return {"model": new, "previous": (w if len(state["previous"]) else new).to(torch.float32)}

    def result(self, state: State) -> Tensor:
        model, previous = state["model"], state.get("previous", torch.empty(0))
        shared = len(previous)  # running statistics follow it, and the newest ones are used
        return torch.cat([(model[:shared] + previous) / 2, model[shared:]])


class FedExP(Averaging):
    settings: FedExPSettings

    @by_sums
    def round(self, server: Server, state: State) -> State:
        if self.settings.epsilon_falls:
            local = self.settings.local
            lowered = local.rate(server.round, self.rounds) / local.lr
            state = state.but(epsilon=torch.tensor(self.settings.epsilon * lowered**2, dtype=torch.float64))
        return super().round(server, state)


@method("fedexp", settings=FedExPSettings, presets=PRESETS)
def fedexp(settings: FedExPSettings) -> Averaging:
    return FedExP(settings, rule=Extrapolated(settings))
