"""SCAFFOLD: "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", algorithm 1.

A client corrects each step by the difference of two control variates, y ← y − η (g − c_k + c): its own c_k (in its
memory, zero until it first takes part) and the server's c (in State, sent beside the model). After training

    option II   c_k⁺ = c_k − c + (w − y) / Σ rates of the steps taken
    option I    c_k⁺ = the gradient over all its records at the broadcast model w (one more pass)

and the server moves c ← c + (1/N) Σ_S (c_k⁺ − c_k), where N counts all clients, including those not asked, and the sum
is unweighted whatever ``weights`` says about the models. Local momentum is refused, because (w − y) / Σ rates would no
longer be a mean of gradients.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from understudy.base_settings import Settings
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Kind, Message
from understudy.federation.method import State
from understudy.learning.local import Local
from understudy.learning.loop import Trained, full_gradient
from understudy.methods.shared.averaging import AveragingSettings
from understudy.methods.shared.term_registration import term
from understudy.methods.shared.terms_and_rules import Kit, Parts, Rule, Shapes, Term
from understudy.models.network import Network


class ControlSettings(Settings):
    option: Literal["I", "II"] = "II"  # how c_k is updated: from a full pass (I), or from the steps taken (II)


class ScaffoldSettings(ControlSettings, AveragingSettings):
    server_lr: float = Field(default=1.0, gt=0)  # η_g, learning rate of the server


Block = Callable[[Network], Sequence[slice]]  # a part of the trained vector, in pieces


def everything(net: Network) -> Sequence[slice]:
    return [net.trainable]


class ControlVariate(Term):
    """On the whole trained vector, or on a block of it; the rest is trained and averaged as usual."""

    down: ClassVar[tuple[str, ...]] = ("control",)
    in_rows: ClassVar[tuple[str, ...] | None] = ("pull",)
    up: ClassVar[Mapping[str, Kind]] = {"control": "weights"}

    def __init__(self, option: Literal["I", "II"], batch: int, block: Block = everything):
        self.option, self.batch, self.block = option, batch, block
        self.reads_records = self.usual_loss = option == "I"  # for a gradient over all records

    def shapes(self, net: Network) -> Shapes:
        return {"control": (sum(piece.stop - piece.start for piece in self.block(net)),)}

    def check(self, net: Network) -> None:
        self.block(net)

    def fits(self, local: Local, head_at_home: bool) -> None:
        if head_at_home:
            raise UserError(
                f"{self.name} sends a control variate for everything a client trains, but in this method heads stay at "
                "home and move in separate steps; leave it out, or add it to a method such as fedavg."
            )
        if local.momentum:
            raise UserError(
                f"{self.name}: method.local.momentum must be 0, because the control variate is a mean of plain SGD "
                "steps."
            )

    def first_state(self, net: Network) -> Parts:
        return {"control": torch.zeros(self.shapes(net)["control"])}

    def begin(self, client: Client, brief: Message, net: Network) -> Kit | None:
        c = brief["control"]
        c_k = client.memory.get("control", torch.zeros_like(c))
        pieces = torch.tensor([(piece.start, piece.stop) for piece in self.block(net)]).view(-1, 2)
        kit = {"c": c, "c_k": c_k, "pieces": pieces, "pull": _spread(c - c_k, pieces, net)}
        if self.option == "I" and len(client.examples):
            w = net.vector.clone()
            kit["gradient"] = _of_block(full_gradient(net, w, client.examples, self.batch).cpu(), pieces)
        return kit

    def gradient(self, kit: Kit, w: Tensor) -> Tensor:
        return kit["pull"]

    def end(self, client: Client, kit: Kit | None, trained: Trained) -> Parts:
        assert kit is not None
        c, c_k = kit["c"], kit["c_k"]
        if trained.steps == 0:
            return {"control": torch.zeros_like(c)}
        moved = _of_block(trained.start - trained.model, kit["pieces"])
        new = kit["gradient"] * trained.data_weight if self.option == "I" else c_k - c + moved / trained.rate_sum
        client.memory["control"] = new
        return {"control": new - c_k}

    def fold(self, state: State, sums: Message, clients: int) -> Parts:
        return {"control": (state["control"] + sums["control"] / clients).to(torch.float32)}


def _of_block(vector: Tensor, pieces: Tensor) -> Tensor:
    return torch.cat([vector[:0], *(vector[start:stop] for start, stop in pieces.tolist())])


def _spread(values: Tensor, pieces: Tensor, net: Network) -> Tensor:
    """Spread over the whole trained vector, with zeros outside the block."""
    whole, at = torch.zeros(net.parameters), 0
    for start, stop in pieces.tolist():
        whole[start:stop] = values[at : at + stop - start]
        at += stop - start
    return whole.to(net.device)


@term(
    "scaffold",
    settings=ControlSettings,
    alone=ScaffoldSettings,
    rule=lambda settings: Rule(settings.server_lr),
    sends="its change and a control variate",
)
def scaffold(settings: ControlSettings, local: Local) -> Term:
    return ControlVariate(settings.option, local.batch)
