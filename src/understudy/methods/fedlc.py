"""FedLC: "Federated Learning with Label Distribution Skew via Logits Calibration".

A client with few records of a class, or none, unlearns it, because every other record pushes its logit down. So each
logit first loses a margin that is larger the fewer records of that class the client holds:

    L(y; f(x)) = −log( e^{f_y(x) − τ·n_y^{−1/4}} / Σ_{y'} e^{f_{y'}(x) − τ·n_{y'}^{−1/4}} )

replaces the cross-entropy, where n_y is the client's number of records of class y. τ = 0 is FedAvg. The server averages
as in FedAvg, and predictions use the plain logits. Nothing but the model travels.

A class that a client does not hold counts as n = 1e-8. Its margin is then 100 τ, so at τ = 1 it has no share in the sum
and its logit stays where it is. Leaving it out would do the same there, but then τ near 0 would not be FedAvg. A client
thus learns to tell apart only the classes it holds, and with a single class it hardly moves: where clients hold little
more than one class each, as in ``digits-skewed``, it ends far below FedAvg (20.0 % against 74.2 %, one seed). It needs
clients that share classes unevenly (``data.split.alpha=0.5``: 93.1 % against 92.2 %).

Synthetic records that a client was dealt are trained on, so they are counted like its own. Outputs that another term
adds to the head are not classes of records and have no margin. Label counts carry no noise, so private methods refuse
this term.
"""

from typing import ClassVar

from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from understudy.base_settings import Settings
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.learning.local import Local
from understudy.learning.loop import Batch
from understudy.learning.losses import per_record_loss
from understudy.methods.shared.term_registration import term
from understudy.methods.shared.terms_and_rules import Kit, Term
from understudy.models.network import Network

ABSENT = 1e-8  # what no record of a class counts as


class FedLcSettings(Settings):
    tau: float = Field(default=1.0, ge=0)  # τ, strength of the margins


class Calibration(Term):
    """The usual loss, of logits less the margins of their classes."""

    per_record: ClassVar[bool] = True
    reads_records: bool = True  # label counts

    def __init__(self, tau: float):
        self.tau = tau

    def check(self, net: Network) -> None:
        if net.problem.multilabel:
            raise UserError("fedlc calibrates classes against each other, so every record must have exactly one label.")

    def begin(self, client: Client, brief: Message, net: Network) -> Kit | None:
        if not self.tau:
            return None
        held = client.examples.label_counts(net.problem.classes)
        return {"margins": margins(held, self.tau).to(net.device)}

    def data_loss(self, kit: Kit, net: Network, batch: Batch) -> Tensor:
        added = batch.logits.shape[1] - net.problem.classes  # outputs of another term
        return per_record_loss(net.problem, batch.logits - F.pad(kit["margins"], (0, added)), batch.y)


def margins(held: Tensor, tau: float) -> Tensor:
    """(classes,): τ · n^{−1/4} of each class, of which ``held`` says n."""
    return tau * held.float().clamp(min=ABSENT) ** -0.25


@term("fedlc", settings=FedLcSettings, needs="data.split.alpha=0.5")
def fedlc(settings: FedLcSettings, _: Local) -> Term:
    return Calibration(settings.tau)
