"""FedNova: "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization".

Client k takes τ_k steps, and one that takes more steps would count for more. So each change is divided by a_k, the sum
of the weights with which its gradients entered it, and the server multiplies by the mean:

    d_k = (w − w_k) / a_k,      w ← w − (Σ p_k a_k) Σ p_k d_k,      p_k the weight of k among the participants

    SGD               a = τ
    momentum ρ        a = [τ − ρ (1 − ρ^τ) / (1 − ρ)] / (1 − ρ)
    proximal term μ   a ← a (1 − ημ) + 1, once per step; the outer factor is then Σ p_k τ_k, as in the authors' code

Momentum together with μ is refused: the authors' code mixes the two recursions, and neither a is right then.

What a client sends is scaled by a common number of steps τ̄, so that clients with equal steps send exactly the bits
that FedAvg would: Δ_k · (out(τ̄)/a_k), and out(τ_k)/out(τ̄) − 1, where ``out`` is what the outer factor averages. τ̄ is
``local.steps``; with ``local.epochs`` it is the mean over clients, for which the opening asks each client for one
number and the brief carries one more.
"""

import math
from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field
from torch import Tensor

from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Kind, Message, scalar
from understudy.federation.method import State, by_sums, task
from understudy.federation.registry import method
from understudy.federation.server import Server
from understudy.learning.loop import Trained
from understudy.methods.fedprox import Proximal
from understudy.methods.shared.averaging import Averaging, AveragingSettings
from understudy.methods.shared.terms_and_rules import Kit, Parts, Rule, Shapes, Term
from understudy.models.network import Network

PRESETS = {"niid-bench": {"local": {"momentum": 0.9}}}  # as in its scripts; FedDM takes its baselines from NIID-Bench
COMMON = "common_steps"  # τ̄, in State and in the brief


class FedNovaSettings(AveragingSettings):
    mu: float = Field(default=0.0, ge=0)  # μ of a proximal term; 0: none


def effective_steps(steps: float, *, rate: float = 0.0, momentum: float = 0.0, mu: float = 0.0) -> float:
    """a for this many steps."""
    if momentum:
        return (steps - momentum * (1 - math.pow(momentum, steps)) / (1 - momentum)) / (1 - momentum)
    if mu:  # the recursion's sum, [1 − (1 − ημ)^τ] / ημ, written so that a tiny ημ loses no digits
        return -math.expm1(steps * math.log1p(-rate * mu)) / (rate * mu)
    return float(steps)


class Normalised(Rule):
    """A client sends ``steps`` as its weight times how far its steps are from the common number."""

    up: ClassVar[Mapping[str, Kind]] = {"change": "weights", "steps": "scalars"}

    def shapes(self, size: int) -> Shapes:
        return {"change": (size,), "steps": ()}

    def share(self, change: Tensor, weight: float, trained: Trained) -> Parts:
        return {"change": change * weight, "steps": scalar(trained.steps)}

    def step(self, w: Tensor, state: State, sums: Message, clients: int) -> Parts:
        outer = 1 + sums["steps"] / sums["weight"]
        return {"model": w + outer * (sums["change"] / sums["weight"])}


class CommonSteps(Term):
    """Sends τ̄ to the clients; it does not act on the model."""

    down: ClassVar[tuple[str, ...]] = (COMMON,)

    def begin(self, client: Client, brief: Message, net: Network) -> Kit | None:
        return None


class FedNova(Averaging):
    plain_steps: ClassVar[str] = "fednova counts only steps on the loss and its own proximal term (method.mu)"
    as_usual: ClassVar[tuple[str, ...]] = ("train",)
    settings: FedNovaSettings

    # ---- on the client

    @task()  # what it sends depends on rule and terms
    def train(self, client: Client, brief: Message) -> Message:
        return super().train(client, brief)  # under its own name, which run folders know

    def reply(self, client: Client, brief: Message, trained: Trained, of_terms: Parts) -> Message:
        reply, local = super().reply(client, brief, trained, of_terms), self.settings.local
        steps, weight = int(reply["steps"]), float(reply["weight"])
        if not steps:
            return reply.but(steps=scalar(-weight))
        rate = local.rate(client.round, self.rounds)
        a = effective_steps(steps, rate=rate, momentum=local.momentum, mu=self.settings.mu)
        common = self._out(float(brief[COMMON]) if local.steps is None else local.steps)
        further = self._out(steps) / common - 1
        return reply.but(change=reply["change"] * (common / a), steps=scalar(weight * further))

    def _out(self, steps: float) -> float:
        """What the outer factor averages: a, but plain steps in place of its proximal form."""
        return effective_steps(steps, momentum=self.settings.local.momentum)

    @task(steps="scalars", clients="scalars")
    def count(self, client: Client, brief: Message) -> Message:
        steps = self.settings.local.step_count(len(client.own))
        return Message(steps=scalar(steps), clients=scalar(steps > 0))

    # ---- on the server

    def local_model(self, brief: Message, reply: Message) -> Tensor | None:
        """The change comes divided by 1 + steps / weight (exactly so without a proximal term)."""
        if "change" not in reply or "steps" not in reply or not float(reply["weight"]):
            return None
        longer = 1 + reply["steps"] / reply["weight"]
        return super().local_model(brief, reply.but(change=reply["change"] * longer))

    @by_sums
    def start(self, server: Server) -> State:
        state = super().start(server)
        if self.settings.local.steps is not None:
            return state
        shapes, least = {"steps": (), "clients": ()}, {"steps": 0.0, "clients": 0.0}
        sums = server.sum(self.count, Message(), server.clients, shapes, least)
        mean = float(sums["steps"]) / max(1.0, float(sums["clients"]))
        return state.but({COMMON: scalar(mean or 1)})


@method("fednova", settings=FedNovaSettings, presets=PRESETS)
def fednova(settings: FedNovaSettings) -> Averaging:
    local, mu = settings.local, settings.mu
    if mu and local.momentum:
        raise UserError(
            "fednova: method.mu and method.local.momentum cannot be used together, because changes can be normalised "
            "for only one of them; set one of the two to 0."
        )
    if mu * local.lr >= 1:
        raise UserError(
            f"fednova: method.mu times method.local.lr is {mu * local.lr:g}, so a step would overshoot the broadcast "
            "model; reduce one of them until the product is below 1."
        )
    terms: list[Term] = [Proximal(mu)] if mu else []
    if local.steps is None:
        terms.append(CommonSteps())
    return FedNova(settings, terms=terms, rule=Normalised())
