"""FedDyn: "Federated Learning Based on Dynamic Regularization", algorithm 1.

From the broadcast model w, a client minimises

    f_k(θ) − ⟨g_k, θ⟩ + α/2 · ‖θ − w‖²,      then      g_k ← g_k − α (θ_k − w),

where its dual g_k stays in its memory and is zero until it first takes part. The server keeps h and broadcasts the mean
of the participants' models, corrected by it:

    h ← h − (α/N) Σ_S (θ_k − w),      w ← mean_S θ_k − h/α,

where N counts all clients, including those not asked. The mean is uniform: with other weights h would no longer be the
mean of the duals, so ``weights: size`` is refused. α cancels in h/α, so a small α does not give FedAvg.

A run's model is the plain mean of the participants; the corrected one, which training continues from, is scored beside
it as ``corrected``. Where clients do the scoring (no test set on the server), they score what they are sent, which is
the corrected one.

The authors' code scales α to α_k = α · (mean number of records per client) / n_k, which takes one number from each
client at the opening (``scale_alpha``), and clips at 10. There the linear part of the regulariser is clipped together
with the gradient of the data; here only the data gradient is clipped.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message, scalar
from understudy.federation.method import State, by_sums, task
from understudy.federation.registry import method
from understudy.federation.server import Server
from understudy.learning.loop import Trained
from understudy.methods.shared.averaging import Averaging, AveragingSettings
from understudy.methods.shared.terms_and_rules import Kit, Parts, Rule, Term
from understudy.models.network import Network

PRESETS = {
    "authors": {"scale_alpha": True, "local": {"clip": 10.0, "weight_decay": 1e-3}},
    "fedssyn-cifar10": {"alpha": 0.001, "local": {"clip": 10.0}},
    "fedssyn-cifar10-shuffled": {"alpha": 0.01, "local": {"clip": 10.0}},
    "fedssyn-cifar100": {"alpha": 0.01, "local": {"clip": 10.0}},
}


class FedDynSettings(AveragingSettings):
    weights: Literal["size", "uniform"] = "uniform"
    alpha: float = Field(default=0.01, gt=0)  # α of the dynamic regulariser
    scale_alpha: bool = False  # clients use α_k instead of α


class Dual(Term):
    """The client's half: a linear pull by its dual, and a spring to the broadcast model."""

    in_rows: ClassVar[tuple[str, ...] | None] = ("alpha", "anchor", "dual")

    def __init__(self, alpha: float):
        self.alpha = alpha

    def alpha_of(self, client: Client, brief: Message) -> float:
        return self.alpha

    def begin(self, client: Client, brief: Message, net: Network) -> Kit | None:
        dual = client.memory.get("dual", torch.zeros(net.parameters))
        return {
            "alpha": torch.tensor(self.alpha_of(client, brief), dtype=torch.float64),
            "anchor": net.vector[net.trainable].clone(),
            "dual": dual.to(net.device),
        }

    def gradient(self, kit: Kit, w: Tensor) -> Tensor:
        return torch.sub(w, kit["anchor"]).mul_(kit["alpha"]).sub_(kit["dual"])

    def end(self, client: Client, kit: Kit | None, trained: Trained) -> Parts:
        assert kit is not None
        if trained.steps:
            moved = (trained.model - trained.start)[: len(kit["dual"])]
            client.memory["dual"] = kit["dual"].cpu() - kit["alpha"] * moved
        return {}


class ScaledDual(Dual):
    down: ClassVar[tuple[str, ...]] = ("mean_records",)
    reads_records: bool = True  # how many there are

    def alpha_of(self, client: Client, brief: Message) -> float:
        return self.alpha * float(brief["mean_records"]) / max(1, len(client.own))


class Corrected(Rule):
    """The server's half. ``sums`` are unweighted: each participant with a record counts once."""

    def __init__(self, alpha: float):
        super().__init__()
        self.alpha = alpha

    def first_state(self, size: int) -> Parts:
        return {"h": torch.zeros(size)}

    def step(self, w: Tensor, state: State, sums: Message, clients: int) -> Parts:
        mean = w + sums["change"] / sums["weight"]
        h = state["h"].double() - self.alpha / clients * sums["change"]
        return {"model": mean - h / self.alpha, "mean": mean.to(torch.float32), "h": h.to(torch.float32)}

    def result(self, state: State) -> Tensor:
        return torch.cat([state["mean"], state["model"][len(state["mean"]) :]])


class FedDyn(Averaging):
    plain_steps: ClassVar[str] = "feddyn's dual represents the gradient of the loss and its own spring only"
    settings: FedDynSettings

    @task(records="scalars", clients="scalars")
    def count(self, client: Client, brief: Message) -> Message:
        return Message(records=scalar(len(client.own)), clients=scalar(1))

    @by_sums
    def start(self, server: Server) -> State:
        state = super().start(server)
        state = state.but(mean=state["model"][self.shared])
        if not self.settings.scale_alpha:
            return state
        shapes, least = {"records": (), "clients": ()}, {"records": 0.0, "clients": 1.0}
        sums = server.sum(self.count, Message(), server.clients, shapes, least)
        return state.but(mean_records=scalar(sums["records"] / sums["clients"]))

    def begun_at(self, state: State, model: Tensor) -> State:
        return super().begun_at(state, model).but(mean=model[self.shared])

    def further_models(self, state: State) -> Mapping[str, Tensor]:
        return {"corrected": state["model"]}


@method("feddyn", settings=FedDynSettings, presets=PRESETS)
def feddyn(settings: FedDynSettings) -> Averaging:
    if settings.weights != "uniform":
        raise UserError(
            "feddyn: method.weights must be 'uniform', because the server corrects a plain mean of the "
            "participants; write 'uniform' or leave it out."
        )
    term = ScaledDual(settings.alpha) if settings.scale_alpha else Dual(settings.alpha)
    return FedDyn(settings, terms=[term], rule=Corrected(settings.alpha))
