"""ζ², σ² and L at one model when every client has its part of the shuffled pool, beside the bounds of Lemma 1."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.learning.heterogeneity import Slopes, distance2, heterogeneity, shuffled_bounds, slopes
from understudy.models.network import Network


@dataclass(frozen=True)
class Shuffled:
    """With the synthetic records that each client is dealt, and the lemma's bounds."""

    p: float  # mean over clients of the share of synthetic records
    images: int  # in the pool
    sigma2_pool: float  # σ̃²: the noise of the pool alone
    delta2: float
    zeta2: float
    sigma2: float
    zeta2_bound: float
    sigma2_bound: float
    smoothness: float

    @property
    def holds(self) -> bool:
        return self.zeta2 <= self.zeta2_bound and self.sigma2 <= self.sigma2_bound


def shuffled(
    net: Network, w: Tensor, own: Mapping[str, Slopes], dealt: Mapping[str, Examples], smooth: float
) -> Shuffled:
    """``own``: of the clients that have records; ``dealt``: everybody's part; ``smooth``: L over both together."""
    parts = {name: slopes(net, w, part) for name, part in dealt.items()}
    pool = Slopes(0, torch.zeros(net.parameters, dtype=torch.float64), 0.0)
    for part in parts.values():
        pool = pool.and_also(part)
    before = heterogeneity(list(own.values()))
    after = heterogeneity([one.and_also(parts[name]) for name, one in own.items()])
    p = sum(parts[name].records / (parts[name].records + one.records) for name, one in own.items()) / len(own)
    zeta2, sigma2 = shuffled_bounds(before, pool, p)
    return Shuffled(
        p,
        pool.records,
        pool.noise,
        distance2(before.gradient, pool.mean),
        after.zeta2,
        after.sigma2,
        zeta2,
        sigma2,
        smooth,
    )
