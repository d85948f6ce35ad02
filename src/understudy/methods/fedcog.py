"""FedCOG: "Fake It Till Make It: Federated Learning with Consensus-Oriented Generation".

An add-on to any averaging method. Before it trains, a client inverts the broadcast model θ into M inputs of
the classes that it lacks, on which its own last model θ_prev disagrees with θ; while it trains, it stays close
to θ on them:

    L = a · CE(real) + b · KL( softmax θ(x̂) ‖ softmax local(x̂) ),      temperature 1

The papers' two weightings differ by a factor of hundreds, so the choice must be written down
(``kd_weighting``): ``fixed`` is the main text's a = 1, b = 0.01; ``balanced`` is the appendix' and the released
code's a = n/(n+ñ), b = ñ/(n+ñ), where ñ = Σ_c (max d − d_c) is how many records would balance the client.

Labels are the complement d̂_c = max d − d_c, allocated to exactly M by largest remainder. A client that took
part before uses the model that it produced then, however old; one that has none generates without the
disagreement. The soft labels are those of the images that are used: the last iterate. Nothing else crosses
the wire, so the bytes are those of the method underneath.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message, scalar
from understudy.federation.method import Method
from understudy.federation.registry import add_on
from understudy.learning.loop import Batch, Trained
from understudy.methods.averaging import Averaging, Kit, Parts, Term
from understudy.models.network import Network
from understudy.settings import Settings
from understudy.synthesis.inversion import Divergence, invert
from understudy.synthesis.labels import labels_from_counts, largest_remainder

PREVIOUS = "fedcog.previous"


class FedCogSettings(Settings):
    kd_weighting: Literal["fixed", "balanced"]
    kd_weight: float = Field(default=0.01, ge=0)  # λ_kd, with kd_weighting: fixed
    from_round: int = Field(default=1, ge=1)  # plain training before that
    images: int = Field(default=256, ge=1)  # M
    steps: int = Field(default=100, ge=0)
    lr: float = Field(default=0.01, gt=0)
    disagreement: float = Field(default=0.1, ge=0)  # λ_dis
    labels: Literal["complement", "uniform"] = "complement"
    divergence: Divergence = "exact"


class Consensus(Term):
    """Distillation from the broadcast model on inputs generated from it."""

    def __init__(self, settings: FedCogSettings, batch: int):
        self.settings, self.batch = settings, batch

    def check(self, net: Network) -> None:
        if net.problem.multilabel:
            raise UserError("fedcog: its generated inputs have one class each, so records must have one label each.")

    def begin(self, client: Client, brief: Message, net: Network) -> Kit | None:
        settings = self.settings
        held = client.examples.label_counts(net.problem.classes)
        if client.round < settings.from_round or int(held.sum()) == 0:
            return None
        real_weight, kd_weight = self.loss_weights(held)
        if kd_weight == 0:
            return None
        labels = labels_from_counts(self.label_counts(held))
        previous = client.memory.get(PREVIOUS)
        rng = client.rng("fedcog images")
        x = invert(
            net,
            labels,
            rng,
            previous=None if previous is None else net.twin(previous, "previous"),
            steps=settings.steps,
            lr=settings.lr,
            disagreement=settings.disagreement,
            divergence=settings.divergence,
        )
        order = torch.randperm(len(x), generator=rng)
        soft = net.logits(x)
        return {
            "x": x[order],
            "teacher": F.log_softmax(soft, 1)[order],
            "data_weight": scalar(real_weight),
            "kd_weight": scalar(kd_weight),
        }

    def label_counts(self, held: Tensor) -> Tensor:
        """How many images of each class to make; exactly ``images`` in all."""
        lacking = held.max() - held if self.settings.labels == "complement" else torch.ones_like(held)
        return largest_remainder(self.settings.images, lacking)

    def loss_weights(self, held: Tensor) -> tuple[float, float]:
        """a on the data and b on the distillation."""
        if self.settings.kd_weighting == "fixed":
            return 1.0, self.settings.kd_weight
        real, lacking = float(held.sum()), float((held.max() - held).sum())
        return real / (real + lacking), lacking / (real + lacking)

    def data_weight(self, kit: Kit) -> float:
        return float(kit["data_weight"])

    def loss(self, kit: Kit, net: Network, w: Tensor, batch: Batch) -> Tensor:
        size = min(self.batch, len(kit["x"]))
        at = (batch.step * size + torch.arange(size)) % len(kit["x"])
        teacher = kit["teacher"][at]
        student = F.log_softmax(net.at(w, kit["x"][at])[1], 1)
        return float(kit["kd_weight"]) * (teacher.exp() * (teacher - student)).sum(1)

    def end(self, client: Client, kit: Kit | None, trained: Trained) -> Parts:
        client.memory[PREVIOUS] = trained.model
        return {}


@add_on("fedcog", settings=FedCogSettings)
def fedcog(settings: FedCogSettings, method: Method) -> Method:
    if not isinstance(method, Averaging):
        raise UserError(
            "fedcog joins methods in which clients train and the server averages; "
            f"in {type(method).__name__} there is no local training to join."
        )
    return method.and_term(Consensus(settings, method.settings.local.batch))
