"""VHL: "Virtual Homogeneity Learning: Defending against Data Heterogeneity in Federated Learning".

All clients have the same set of labelled noise, made from a public seed, so it costs no bytes (see
``synthesis.noise_sets``; ``noise: gaussian`` is FedCOG's form of it, preset ``fedcog``). The head has 2C outputs: class
c of the noise has the label C + c. A client's loss is

    CE(real) + α · CE(noise) + λ · SupCon(real ∪ noise) + λ' · SupCon(noise)

SupCon is the supervised contrastive loss over normalised last features: it draws features of one class together. In the
first of the two, class c of the records and class c of the noise are one class and the noise is held constant, so the
records move towards the noise, which is the same at every client. Both apply only in the first ``align_epochs`` epochs
of a round, converted to steps by the client's own records. Anchors without a partner in their batch are left out of the
mean, since their loss is undefined.

Predictions use the first C outputs; the released code takes the largest of all 2C, so that a noise label counts as an
error. Noise passes through the network separately from the records, which makes a difference only with BatchNorm.
"""

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from understudy.base_settings import Settings
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message, scalar
from understudy.federation.method import Takes
from understudy.learning.local import Local
from understudy.learning.loop import Batch
from understudy.learning.plan import steps_of_epochs
from understudy.methods.shared.term_registration import term
from understudy.methods.shared.terms_and_rules import Kit, Term
from understudy.models.network import Network
from understudy.synthesis.noise_sets import Noise, noise_set

# Only images can be made by the style generator.
NOISE_FOR: Takes = {"image": "", "vector": "noise=gaussian", "sequence": "noise=gaussian"}


class VHLSettings(Settings):
    noise: Noise = "style"  # how the noise is made: by an untrained generator, or Gaussian
    noise_images: int = Field(default=200, ge=1)  # noise images per class
    noise_spread: float = Field(default=0.3, gt=0)  # standard deviation of the class means, and around them
    noise_seed: int = 0  # public seed of the noise
    noise_batch: int = Field(default=128, ge=1)  # noise images per step
    noise_weight: float = Field(default=1.0, ge=0)  # α, weight of the loss on noise
    alignment: float = Field(default=1.0, ge=0)  # λ, weight of aligning records with noise
    noise_alignment: float = Field(default=0.1, ge=0)  # λ', weight of aligning noise with itself
    align_epochs: int = Field(default=5, ge=0)  # epochs of a round in which features are aligned
    temperature: float = Field(default=0.07, gt=0)  # τ of the contrastive loss


class VirtualHomogeneity(Term):
    per_record: ClassVar[bool] = False
    reads_records: bool = True  # how many there are
    takes: Takes = NOISE_FOR

    def __init__(self, settings: VHLSettings, local: Local):
        self.settings, self.local = settings, local

    def samples(self, steps: int, rounds: range) -> float:
        return float(len(rounds) * steps * self.settings.noise_batch)

    def check(self, net: Network) -> None:
        if net.problem.multilabel:
            raise UserError("vhl pairs every class with a noise class, so every record must have exactly one label.")
        if self.settings.noise == "style" and len(net.problem.shape) != 3:
            raise UserError(
                f"vhl: noise is 'style', which makes images, but the records have shape {net.problem.shape}; "
                "write 'gaussian'."
            )

    def adapt_network(self, module: nn.Module, problem: Problem) -> nn.Module:
        """The same network with twice the outputs, the second half for the noise."""
        head = getattr(module, "head", None)
        if isinstance(head, nn.Linear):
            module.head = _widened(head, problem.classes)
        elif isinstance(head, nn.Sequential) and isinstance(head[-1], nn.Linear):
            head[-1] = _widened(head[-1], problem.classes)
        else:
            raise UserError("vhl doubles the outputs of a network, so its head must be, or end with, a linear layer.")
        return module

    def begin(self, client: Client, brief: Message, net: Network) -> Kit | None:
        settings, records = self.settings, len(client.own)
        weights = (settings.noise_weight, settings.alignment, settings.noise_alignment)
        if records == 0 or not any(weights):
            return None
        made = noise_set(settings.noise, net.problem, settings.noise_images, settings.noise_spread, settings.noise_seed)
        order = torch.randperm(len(made), generator=client.rng("vhl noise"))
        steps = steps_of_epochs(records, settings.align_epochs, self.local.batch, drop_last=self.local.drop_last)
        return {
            "x": made.x[order].to(net.device),
            "y": made.y[order].to(net.device),
            "align_steps": scalar(steps),
        }

    def loss(self, kit: Kit, net: Network, w: Tensor, batch: Batch) -> Tensor:
        settings = self.settings
        size = min(settings.noise_batch, len(kit["y"]))
        at = (batch.step * size + torch.arange(size, device=net.device)) % len(kit["y"])
        y = kit["y"][at]
        features, logits = net.at(w, kit["x"][at])
        loss = settings.noise_weight * F.cross_entropy(logits, y + net.problem.classes)
        if batch.step >= int(kit["align_steps"]):
            return loss
        both = torch.cat([batch.features, features.detach()])
        together = supervised_contrast(both, torch.cat([batch.y, y]), settings.temperature)
        of_noise = supervised_contrast(features, y, settings.temperature)
        return loss + settings.alignment * together + settings.noise_alignment * of_noise


def supervised_contrast(features: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Mean over anchors i of −1/|P_i| Σ_{p∈P_i} log( e^{z_i·z_p/τ} / Σ_{a≠i} e^{z_i·z_a/τ} ), P_i the partners of i."""
    z = F.normalize(features, dim=1)
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    likeness = (z @ z.T / temperature).masked_fill(itself, -torch.inf)
    log_chance = likeness.log_softmax(1).masked_fill(itself, 0.0)
    partners = (labels[:, None] == labels) & ~itself
    count = partners.sum(1)
    return -_mean_where(count > 0, (log_chance * partners).sum(1) / count.clamp(min=1))


def _mean_where(chosen: Tensor, values: Tensor) -> Tensor:
    """0 if none is chosen. Values are picked on the processor only: a device would have to wait for their number."""
    if values.device.type == "cpu" and bool(chosen.any()):
        return values[chosen].mean()
    return torch.where(chosen, values, 0.0).sum() / chosen.sum().clamp(min=1)


def _widened(layer: nn.Linear, more: int) -> nn.Linear:
    wide = nn.Linear(layer.in_features, layer.out_features + more, bias=layer.bias is not None)
    with torch.no_grad():
        wide.weight[: layer.out_features] = layer.weight
        if layer.bias is not None:
            wide.bias[: layer.out_features] = layer.bias
    return wide


@term("vhl", settings=VHLSettings, presets={"fedcog": {"noise": "gaussian"}})
def vhl(settings: VHLSettings, local: Local) -> Term:
    return VirtualHomogeneity(settings, local)
