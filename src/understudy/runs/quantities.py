"""ζ², σ², δ² and L at one shared model, over the clients' own records and with those they are dealt, next to the bounds
of Lemma 1. Clients without records of their own never train, so they do not count.

A simulation holds every client's records; a real federation does not, so there it is not available. It reads records
without noise, so a run that promises privacy refuses it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.federation import Federation
from understudy.federation.cohorts import in_order
from understudy.federation.method import Method, State
from understudy.learning.heterogeneity import (
    Heterogeneity,
    Slopes,
    distance2,
    heterogeneity,
    shuffled_bounds,
    slopes,
    smoothness,
)
from understudy.models.network import Network
from understudy.randomness import generator

QUICK_STEPS = 20  # of power iteration for L: a line of metrics should not cost more than the round


@dataclass(frozen=True)
class Shuffled:
    """Values with the synthetic records dealt to each client, and the lemma's bounds."""

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
        return not self.beyond

    @property
    def beyond(self) -> dict[str, float]:
        """What exceeds its bound, and by what share of it."""
        both = {"ζ²": (self.zeta2, self.zeta2_bound), "σ²": (self.sigma2, self.sigma2_bound)}
        return {
            name: value / bound - 1 if bound else math.inf for name, (value, bound) in both.items() if value > bound
        }

    @property
    def verdict(self) -> str:
        if self.holds:
            return "Both are within the bounds of Lemma 1."
        above = " and ".join(f"{name} is {100 * share:.1f} % above its bound" for name, share in self.beyond.items())
        return f"{above}: the lemma assumes the whole pool and one p, but each client has only a part."


@dataclass(frozen=True)
class Quantities:
    clients: int  # with records
    records: int
    zeta2: float
    sigma2: float
    smoothness: float
    shuffled: Shuffled | None  # None if nothing was dealt

    def line(self) -> dict[str, float]:
        """For a line of metrics: ``…_shuffled`` includes what was dealt, ``…_bound`` is what Lemma 1 allows."""
        own = {"zeta2": self.zeta2, "sigma2": self.sigma2, "smoothness": self.smoothness}
        after = self.shuffled
        if after is None:
            return own
        return {
            **own,
            "zeta2_shuffled": after.zeta2,
            "zeta2_bound": after.zeta2_bound,
            "sigma2_shuffled": after.sigma2,
            "sigma2_bound": after.sigma2_bound,
            "smoothness_shuffled": after.smoothness,
            "delta2": after.delta2,
            "sigma2_pool": after.sigma2_pool,
            "share_shuffled": after.p,
        }


def measure_round(method: Method, state: State, data: Federation) -> dict[str, float]:
    """For a line of metrics, if the config asks for it (``measure: N``, every N rounds)."""
    return quantities(method.net, method.result(state), data, dealt_examples(method, state, data), QUICK_STEPS).line()


def dealt_examples(method: Method, state: State, data: Federation) -> dict[str, Examples]:
    """What each client is dealt, whether or not it was asked yet."""
    return {client: dealt.examples for client, dealt in method.dealt(state, in_order(data.sites)).items()}


def quantities(
    net: Network, w: Tensor, data: Federation, dealt: Mapping[str, Examples], power_steps: int
) -> Quantities:
    """``dealt``: what each client is dealt; ``power_steps``: steps of power iteration for L."""
    records = {name: holding.own for name, holding in data.sites.items() if len(holding.own)}
    own = {name: slopes(net, w, some) for name, some in records.items()}
    before = heterogeneity(list(own.values()))

    def smooth(clients: list[Examples]) -> float:
        return smoothness(net, w, clients, generator("smoothness"), steps=power_steps)

    after = None
    if any(map(len, dealt.values())):
        parts = {name: slopes(net, w, part) for name, part in dealt.items()}
        both = smooth([some.and_also(dealt[name]) for name, some in records.items()])
        after = _shuffled(own, parts, before, both)
    count = sum(map(len, records.values()))
    return Quantities(len(own), count, before.zeta2, before.sigma2, smooth(list(records.values())), after)


def _shuffled(own: Mapping[str, Slopes], parts: Mapping[str, Slopes], before: Heterogeneity, smooth: float) -> Shuffled:
    pool = Slopes(0, torch.zeros_like(before.gradient), 0.0)
    for part in parts.values():
        pool = pool.and_also(part)
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
