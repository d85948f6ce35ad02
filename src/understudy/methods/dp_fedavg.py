"""DP-FedAvg and DP-FedProx, as the baselines of "FedLAP-DP: Federated Learning by Sharing Differentially Private Loss
Approximations": clients train with DP-SGD, the server averages.

A step samples each record with probability q, clips its gradient to C over all parameters together, and moves along

    ( Σ clipped + N(0, σ²C² I) ) / (q n̄)

where n̄ is a planned number of records that does not depend on the data; an empty batch is possible and still costs a
step. A round is E · ⌊1/q⌋ steps (or ``local.steps``), charged before the first record is touched. σ is ``noise``, or is
solved from ``privacy.epsilon`` for all rounds together. What a client sends depends on its records only through these
steps: its weight is planned as well.

The clients' random draws must stay secret, so augmentation uses the secret streams too, and dropout is refused.

DP-FedProx adds μ (θ − w) after clipping and noise: it depends on no record, so it costs no privacy. In the FedLAP-DP
release the term was part of the loss, whose gradient the privacy library replaced, so every μ gave the same model.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.federation.registry import method
from understudy.learning.local import Local
from understudy.learning.loop import Descent, Feed, Pull, Slope, Step, Trained, train
from understudy.learning.plan import EMPTY
from understudy.methods.fedprox import Proximal
from understudy.methods.shared.averaging import Averaging, AveragingSettings
from understudy.methods.shared.planned_releases import charge, noisy_means
from understudy.methods.shared.terms_and_rules import Term
from understudy.models.network import Network
from understudy.privacy.gradients import clipped_gradient_sum, clipped_gradient_sum_with
from understudy.privacy.mechanism import NoisyMeans, poisson_rows
from understudy.privacy.planning import NoisePlan, check_promise, planned


class DpSettings(AveragingSettings):
    local: Local = Local(epochs=5, batch=256, lr=0.1, schedule="cosine")  # batch: the expected size of a Poisson batch
    weights: Literal["size", "uniform"] = "uniform"
    clip: float = Field(default=0.1, gt=0)  # C, clipping norm of one record's gradient
    noise: float | None = Field(default=1.0, gt=0)  # σ, in units of C; null: solved from privacy.epsilon


class DpProxSettings(DpSettings):
    clip: float = Field(default=0.2, gt=0)
    mu: float = Field(default=0.1, ge=0)  # μ of the proximal term


class PrivateAveraging(Averaging):
    settings: DpSettings

    def bind(self, net: Network, rounds: int) -> None:
        super().bind(net, rounds)
        if self.privacy is None:
            raise UserError("dp-fedavg and dp-fedprox need a privacy promise; write `privacy: {delta: 1e-5}`.")
        check_promise(self.privacy, self.settings.noise)
        if self.privacy.records is not None:
            self.noise_plan(self.privacy.records)  # refuses an ε that cannot be reached
        if net.size > net.parameters:
            raise UserError(
                "privacy: the network keeps running statistics of records, which noise does not cover; "
                "choose a network without BatchNorm."
            )
        for term in self.terms:
            _check_private(term)

    def and_term(self, term: Term) -> Averaging:
        _check_private(term)  # so that listings show which add-ons join
        return super().and_term(term)

    def seen_by_terms(self, client: Client) -> Client:
        return client.without_records()

    @property
    def private(self) -> bool:
        return True

    def noise_plan(self, records: int) -> NoisePlan:
        """Rate, steps per round and noise for a client with this many records."""
        assert self.privacy is not None
        settings, before = self.settings, self.spent_before(records)
        return planned(self.privacy, settings.local, settings.noise, records, self.rounds, before)

    def fit(self, client: Client, brief: Message, w: Tensor, pulls: Sequence[Pull]) -> Trained:
        local, plan = self.settings.local, self.noise_plan(len(client.own))
        means = self._charged(client, plan)
        batches = _poisson_plan(len(client.examples), plan, client.secret_rng("sampling"))
        changes = client.secret_rng("augmentation")  # by position in the batch: it would reveal who is in
        slope = private(means, with_losses=any(term.changes_loss for term in self.terms))
        descent = Descent(local, local.rate(client.round, self.rounds), pulls, slope)
        return train(self.net, w, Feed(client.examples, batches, changes), descent, records=plan.records)

    def _charged(self, client: Client, plan: NoisePlan) -> NoisyMeans:
        """The gradients of a round, paid for before a record is touched."""
        clip, sent = self.settings.clip, ("weight", *self.rule.up, *(part for term in self.terms for part in term.up))
        charge(client, plan, clip, covers=sent)
        return noisy_means(client, plan, clip, self.net.grad, client.secret_rng("noise"))


def _check_private(term: Term) -> None:
    name = term.name
    if term.changes_loss and not getattr(term, "per_record", True):
        raise UserError(
            f"privacy: the loss that {name} adds is not one number per record, so no record's influence on it can be "
            "bounded; leave it out, or use a method without noise."
        )
    if term.reads_records:
        raise UserError(
            f"privacy: {name} looks at records outside the clipped gradient, where noise does not cover them; "
            "leave it out, or use a method without noise."
        )


def private(means: NoisyMeans, *, with_losses: bool = False) -> Slope:
    """DP-SGD's direction; an empty batch is noise alone. ``with_losses``: pulls add to each record's loss."""

    def slope(net: Network, forward: Step, pulls: Sequence[Pull]) -> None:
        if with_losses:
            total = clipped_gradient_sum_with(net, forward, pulls, means.clip)
        else:
            total = clipped_gradient_sum(net, forward.x, forward.y, means.clip)
        net.grad.copy_(means(total))

    return slope


def _poisson_plan(pool: int, plan: NoisePlan, rng: torch.Generator) -> Tensor:
    nobody = torch.tensor([EMPTY])  # a table has at least one column, even if no record was drawn
    drawn = [nobody, *(poisson_rows(pool, plan.rate, rng) for _ in range(plan.steps))]
    return pad_sequence(drawn, batch_first=True, padding_value=EMPTY)[1:]


@method("dp-fedavg", settings=DpSettings)
def dp_fedavg(settings: DpSettings) -> Averaging:
    return PrivateAveraging(settings)


@method("dp-fedprox", settings=DpProxSettings, presets={"release": {"mu": 0.2}})  # written there without the half
def dp_fedprox(settings: DpProxSettings) -> Averaging:
    return PrivateAveraging(settings, terms=[Proximal(settings.mu)])
