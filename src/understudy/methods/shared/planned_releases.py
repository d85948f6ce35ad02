"""The releases of a private task: charged as planned before a record is touched, then made as planned."""

from collections.abc import Sequence

import torch
from torch import Tensor

from understudy.federation.client import Client
from understudy.privacy.mechanism import NoisyMeans
from understudy.privacy.planning import NoisePlan


def charge(client: Client, plan: NoisePlan, clip: float, covers: Sequence[str]) -> None:
    """For all steps of the plan; ``covers``: the parts of the reply that depend on records only through them."""
    expected = _expected(client, plan)
    client.budget.charge(rate=plan.rate, noise=plan.noise, steps=plan.steps, clip=clip, covers=covers, divisor=expected)


def noisy_means(client: Client, plan: NoisePlan, clip: float, like: Tensor, rng: torch.Generator) -> NoisyMeans:
    """As many as were charged; ``like`` and ``rng`` as for `NoisyMeans`."""
    expected = _expected(client, plan)
    return NoisyMeans(like, clip=clip, noise=plan.noise, expected=expected, releases=plan.steps, rng=rng)


def _expected(client: Client, plan: NoisePlan) -> float:
    """The planned number of records in a batch: the constant that sums are divided by. Records dealt to the client are
    sampled like its own, and their number is not secret."""
    return plan.rate * (plan.records + len(client.dealt))
