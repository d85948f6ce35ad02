"""What a mechanism claims, as a curve that no test on neighbouring data can beat.

A test looks at one result and says "with" or "without" the record. α is how often it says "with" on data without it
(false alarms), β how often it says "without" on data with it (misses). If a mechanism is (ε, δ)-private for a record
added or removed, then for every test

    1 − β ≤ e^ε·α + δ    and    1 − α ≤ e^ε·β + δ.

Composed loss distributions (`privacy.loss`) give a δ for every ε, for whichever of adding and removing is worse, and
the curve β(α) is the largest of all these bounds. That is the largest convex curve below both orders' curves (with
against without, without against with): a point under it contradicts the claim, whichever arm has the record. δ is
never too small, so the curve is never too high, and rounding cannot refute an exact mechanism.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.accounting import Spending, account
from understudy.privacy.loss import FEW, composed_deltas, out_of_range

Numbers = NDArray[np.float64]

# A bound by ε has slope e^ε or e^−ε, so it matters only where α or β is below e^−ε: 40 is far beyond any experiment.
EPSILONS = np.concatenate([[0.0], np.geomspace(1e-5, 0.5, 150), np.arange(0.55, 12, 0.05), np.arange(12, 40, 0.25)])
DELTAS = tuple(10.0**-power for power in range(1, 11))  # where only the Rényi bound is to be had
ROUNDING = 1e-10  # more than sums of a few million doubles lose
AT_ONCE = 1000  # points of the curve


class Bounded(Protocol):
    """Something that says which tests cannot exist."""

    @property
    def delta(self) -> float: ...

    def least_misses(self, false_alarms: Numbers) -> Numbers:
        """The least share of misses that any test with this share of false alarms can have."""


@dataclass(frozen=True)
class Claim:
    """Releases of the sampled Gaussian mechanism, composed; for one record, added or removed."""

    spendings: tuple[Spending, ...]
    delta: float  # at which ε is printed; the curve does not depend on it

    @cached_property
    def epsilon(self) -> float:
        """By loss distributions where they can be composed, else by Rényi; infinite without noise."""
        return account(self.spendings, self.delta, "pld").epsilon

    @cached_property
    def note(self) -> str:
        """Why the curve is only that of the Rényi bound; empty: it is the whole one."""
        why = out_of_range(self._releases, self._roughly) if np.isfinite(self._roughly) else ""
        return f"the curve is that of the Rényi bound, since {why}" if why else ""

    def least_misses(self, false_alarms: Numbers) -> Numbers:
        """Trade-off curve: a share of misses below it, at this share of false alarms, contradicts the claim."""
        return least_misses(*self._bounds, false_alarms)

    @property
    def _releases(self) -> list[tuple[float, float, int]]:
        return [(some.rate, some.noise, some.steps) for some in self.spendings if some.steps]

    @cached_property
    def _roughly(self) -> float:
        return account(self.spendings, self.delta, "rdp").epsilon

    @cached_property
    def _bounds(self) -> tuple[Numbers, Numbers]:
        """Pairs of ε and δ that all hold."""
        if not self._releases:
            return np.zeros(1), np.zeros(1)
        if not np.isfinite(self._roughly):
            return np.zeros(1), np.ones(1)  # δ = 1 claims nothing
        if self.note:
            deltas = sorted({self.delta, *DELTAS}, reverse=True)
            return np.array([account(self.spendings, delta, "rdp").epsilon for delta in deltas]), np.array(deltas)
        deltas = composed_deltas(self._releases, EPSILONS.tolist(), self._roughly, FEW)
        return EPSILONS, np.minimum(np.array(deltas) + ROUNDING, 1.0)


@dataclass(frozen=True)
class PlainClaim:
    """(ε, δ) and nothing more."""

    epsilon: float
    delta: float

    def least_misses(self, false_alarms: Numbers) -> Numbers:
        return least_misses([self.epsilon], [self.delta], false_alarms)


def least_misses(epsilons: Sequence[float] | Numbers, deltas: Sequence[float] | Numbers, at: Numbers) -> Numbers:
    """The curve of a mechanism that is (ε, δ)-private, in both directions, for every one of these pairs."""
    growth = np.exp(np.minimum(np.asarray(epsilons, float), 700.0))  # beyond, e^ε is not a double
    kept = 1 - np.asarray(deltas, float)
    alphas = np.asarray(at, float)
    found = np.empty(alphas.shape)
    for start in range(0, alphas.size, AT_ONCE):
        some = alphas.reshape(-1)[start : start + AT_ONCE, None]
        bounds = np.maximum(kept - growth * some, (kept - some) / growth)
        found.reshape(-1)[start : start + AT_ONCE] = bounds.max(axis=1)
    return np.clip(found, 0.0, 1.0)
