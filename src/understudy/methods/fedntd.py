"""FedNTD: "Preservation of the Global Knowledge by Not-True Distillation in Federated Learning".

In local training a client forgets what the broadcast model knows about classes missing from its records. So it distils
that model into its own, on its own records, over all classes except the true one:

    L = CE(q, y) + β · τ² · KL( q̃ᵍ ‖ q̃ ),      q̃(c) = e^{z_c/τ} / Σ_{c'≠y} e^{z_c'/τ}  for c ≠ y

where z are the logits of the local model, and q̃ᵍ uses those of the broadcast model, which is fixed throughout the
round and in evaluation mode. The true class is left to the records, so learning them is not held back. β = 0 is FedAvg.
Only the model is sent.
"""

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from understudy.base_settings import Settings
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.learning.local import Local
from understudy.learning.loop import Batch
from understudy.methods.shared.precompute import worth_keeping
from understudy.methods.shared.term_registration import term
from understudy.methods.shared.terms_and_rules import Kit, Term
from understudy.models.network import Network
from understudy.synthesis.divergence import kullback_leibler


class FedNtdSettings(Settings):
    beta: float = Field(default=1.0, ge=0)  # β, weight of the distillation
    temperature: float = Field(default=1.0, gt=0)  # τ of the distillation


class NotTrue(Term):
    """Keeps the local model's output on the wrong classes close to the broadcast model's."""

    per_record: ClassVar[bool] = True

    def __init__(self, settings: FedNtdSettings, local: Local):
        self.settings, self.local = settings, local

    def check(self, net: Network) -> None:
        if net.problem.multilabel or net.problem.classes < 3:
            raise UserError(
                "fedntd compares models on the classes a record does not have, so records must have exactly one label "
                "of three or more."
            )

    def begin(self, client: Client, brief: Message, net: Network) -> Kit | None:
        if not self.settings.beta:
            return None
        if not client.shows_records or not worth_keeping(self.local, client, net.problem.classes):
            return {"global": net.vector.clone()}
        return {"said": torch.cat([net.logits(some) for some in torch.split(client.examples.x, self.local.batch)])}

    def loss(self, kit: Kit, net: Network, w: Tensor, batch: Batch) -> Tensor:
        said = kit["said"][batch.rows] if "said" in kit else net.twin(kit["global"], "fedntd.global").logits(batch.x)
        tau = self.settings.temperature
        answered = batch.logits[:, : net.problem.classes]  # another term may have widened the head
        teacher, student = (log_chances_of_others(logits / tau, batch.y) for logits in (said, answered))
        return self.settings.beta * tau**2 * kullback_leibler(teacher, student)


def log_chances_of_others(logits: Tensor, y: Tensor) -> Tensor:
    """(n, classes − 1): log q̃ of each record, without its own class ``y``."""
    n, classes = logits.shape
    places = torch.arange(classes - 1, device=logits.device).expand(n, -1)
    return logits.gather(1, places + (places >= y[:, None])).log_softmax(1)


@term("fedntd", settings=FedNtdSettings)
def fedntd(settings: FedNtdSettings, local: Local) -> Term:
    return NotTrue(settings, local)
