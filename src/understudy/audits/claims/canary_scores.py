"""One score per canary: is it among those behind the releases?

After the run an attacker leads the task along its releases once more, with one canary alone, and so sees what that
canary does to each of them. The release's product with it is a matched filter. But canaries have something in common,
and then the many that are in hide the one. So the direction of their mean is projected out, and the rest is unmixed: of

    release = Σ (is it in) · (what the canary does) + noise

the factors are estimated by least squares, with their prior variance and as much noise as the releases speak for. Where
every record is in every release, that is one estimate per canary from all releases together; where few are, one per
release, and their likelihood ratios add up.

Products are exact. How canaries overlap is taken from sketches of what they do: a random sign and a random place per
number, so that inner products are kept on average.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from understudy.audits.claims.claim import Claim, Numbers
from understudy.audits.claims.statistics import ReleaseScores
from understudy.randomness import generator

RARE = 0.5  # sampling rates below: a canary is in so few releases that each is unmixed by itself
ROUNDING = 1e-9
NOISES = torch.logspace(-6, 0.5, 40, dtype=torch.float64)  # variances, of which 1 is claimed


@dataclass(frozen=True)
class Sketch:
    """Numbers added up in ``size`` places with random signs; as they are where there is room for all."""

    size: int
    places: Tensor
    signs: Tensor

    @classmethod
    def of(cls, numbers: int, size: int, release: int) -> "Sketch":
        rng = generator("audit", "sketch", release)
        if numbers <= size:
            return cls(numbers, torch.arange(numbers), torch.ones(numbers))
        places = torch.randint(size, (numbers,), generator=rng)
        return cls(size, places, (2 * torch.randint(2, (numbers,), generator=rng) - 1).float())

    def __call__(self, x: Tensor) -> Tensor:
        return torch.zeros(self.size).index_add_(0, self.places, x.float() * self.signs)


@dataclass(frozen=True)
class CanaryLook:
    """The first releases of one mechanism, and what they claim."""

    mechanism: int  # which charge of the task; −1: all of them together
    what: str  # releases, or first release
    kind: int  # which of the kinds of releases
    scores: ReleaseScores
    claim: Claim

    @property
    def releases(self) -> int:
        return len(self.scores.scales)

    @property
    def numbers(self) -> int:
        return sum(scale.numel() for scale in self.scores.scales.values())

    @property
    def length(self) -> float:
        """Of what a canary does that is as long as its clip, in units of noise."""
        return 1 / max(self.scores.kind.noise, ROUNDING)


@dataclass(frozen=True)
class Filtered:
    """One release: its products with what each canary does, (m,), and sketches of that, (m, size)."""

    products: Tensor
    sketches: Tensor


def decorrelated(releases: Sequence[Filtered], rate: float, length: float) -> Numbers:
    """Scores of all canaries."""
    each = [found for one in releases if (found := _apart(one, length)) is not None]
    if not each:
        return np.zeros(len(releases[0].products))
    if rate >= RARE:
        overlaps, products = (sum(some[1:], some[0]) for some in (list(part) for part in zip(*each, strict=True)))
        return _numpy(_unmixed(rate**2 * overlaps, rate * products, 0.25)[0])
    return _numpy(sum(_log_ratios(overlaps, products, rate) for overlaps, products in each))


def _apart(release: Filtered, length: float) -> tuple[Tensor, Tensor] | None:
    """Overlaps, (m, m), and products, both without the direction of the canaries' mean. None of them does more than its
    ``length`` on average: the factor is not known where a mean is released."""
    sketches, products = release.sketches.double().nan_to_num(), release.products.nan_to_num()
    energy = float(sketches.square().sum(1).mean())
    if not 0 < energy < math.inf:
        return None
    shared = sketches.mean(0)
    along = sketches @ shared / shared.square().sum().clamp(min=ROUNDING * energy)
    apart = sketches - along[:, None] * shared
    scale = min(1.0, length**2 / energy)
    return scale * (apart @ apart.T), math.sqrt(scale) * (products - along * products.mean())


def _unmixed(overlaps: Tensor, products: Tensor, variance: float) -> tuple[Tensor, Tensor]:
    """Estimates of factors with this variance, less their mean, and the share of a factor that is left in its own.

    How much noise there is, less than claimed or none, is what makes these products most likely: no coin tells it.
    """
    lengths, axes = torch.linalg.eigh(overlaps)
    lengths, along = lengths.clamp(min=0), axes.T @ products
    some = lengths > ROUNDING * lengths[-1]
    spread = lengths[some] * (variance * lengths[some] + NOISES[:, None])
    noise = NOISES[int(torch.argmin((spread.log() + along[some].square() / spread).sum(1)))]
    shrunk = torch.where(some, variance / (variance * lengths + noise), 0.0)
    return axes @ (shrunk * along), axes.square() @ (shrunk * lengths)


def _log_ratios(overlaps: Tensor, products: Tensor, rate: float) -> Tensor:
    """For each canary: put in, and so in this release with probability q, against not. An estimate is a times its
    factor, and varies around that by v·a·(1 − a)."""
    mean = rate / 2
    variance = mean * (1 - mean)
    found, kept = _unmixed(overlaps, products, variance)
    kept = kept.clamp(ROUNDING, 1 - ROUNDING)
    exponent = (found + kept * mean - kept / 2) / (variance * (1 - kept))
    return torch.logaddexp(torch.full_like(exponent, math.log1p(-rate)), exponent + math.log(rate))


def _numpy(scores: Tensor | float) -> Numbers:
    return np.asarray(scores, dtype=np.float64)
