"""FedDecorr: "Towards Understanding and Mitigating Dimensional Collapse in Heterogeneous Federated Learning".

A client keeps the dimensions of its features from becoming redundant. With X the features of a batch (N × d), each
dimension standardised within the batch,

    L = CE + β · mean_{i≠j} K_ij² / N,      K = Xᵀ X

As in the authors' release, K is not divided by N, so the term grows with the batch like N · mean ρ², and β is to be
read accordingly. The variance is the unbiased one, with 1e-8 added under the root. A batch of one record has no
correlations and is skipped. The term is one number per batch, not per record, so it has no private form. Only the model
is sent.

FedCOG compares with β = 0.01 (preset ``fedcog``).
"""

from typing import ClassVar

from pydantic import Field
from torch import Tensor

from understudy.base_settings import Settings
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.learning.local import Local
from understudy.learning.loop import Batch
from understudy.methods.shared.term_registration import term
from understudy.methods.shared.terms_and_rules import Kit, Term
from understudy.models.network import Network

SMALLEST_VARIANCE = 1e-8  # a constant dimension stays at 0


class FedDecorrSettings(Settings):
    beta: float = Field(default=0.1, ge=0)  # β, weight of the decorrelation loss


class Decorrelation(Term):
    per_record: ClassVar[bool] = False

    def __init__(self, beta: float):
        self.beta = beta

    def begin(self, client: Client, brief: Message, net: Network) -> Kit | None:
        return {} if self.beta else None

    def loss(self, kit: Kit, net: Network, w: Tensor, batch: Batch) -> Tensor | None:
        records, width = batch.features.shape
        return self.beta * repetition(batch.features) if records > 1 and width > 1 else None


def repetition(features: Tensor) -> Tensor:
    """mean_{i≠j} K_ij² / N of (N, d) features."""
    n, d = features.shape
    x = features - features.mean(0)
    x = x / (x.square().sum(0) / (n - 1) + SMALLEST_VARIANCE).sqrt()
    # ‖XᵀX‖² = ‖XXᵀ‖², so the smaller of the two is enough; the diagonal of XᵀX is known without it.
    products = x @ x.T if n < d else x.T @ x
    return (products.square().sum() - x.square().sum(0).square().sum()) / (d * (d - 1) * n)


@term("feddecorr", settings=FedDecorrSettings, presets={"fedcog": {"beta": 0.01}})
def feddecorr(settings: FedDecorrSettings, _: Local) -> Term:
    return Decorrelation(settings.beta)
