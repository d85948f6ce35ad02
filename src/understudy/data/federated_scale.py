"""One scale for all sites from sums over their columns: how many records, Σ v and Σ v² of every feature.

A feature is the first axis of a record; along further axes, such as time, a record counts with its mean. v is the
number itself. Where ranges were declared, numbers are clipped to them and v runs from −1 to 1 across the range. Then a
record's row (1, v, v² − ½) has norm at most √(1 + 5/4 d), since v² + (v² − ½)² = v⁴ + ¼ ≤ 5/4: by so much one record,
added or removed, moves the sums.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.data.spread import Spread
from understudy.errors import UserError

Range = tuple[float, float]
LIKELY_STD = 0.5  # of v, if nothing is known but its range
ROUNDING = 1e-12  # a variance below this share of the mean square is rounding error


@dataclass(frozen=True)
class FederatedScale:
    """How sites that share no records agree on one scale."""

    ranges: tuple[Range, ...] = ()  # one per feature; empty: none were declared
    noise: float | None = None  # σ of the sums, in units of a record's norm, if there is a privacy budget; None: solved

    def check(self, features: int) -> None:
        if self.ranges and len(self.ranges) != features:
            raise UserError(f"data.ranges: {len(self.ranges)} ranges for {features} features; give one for each.")

    def norm(self, features: int) -> float:
        """The largest norm of a row, with ranges."""
        return math.sqrt(1 + 1.25 * features)

    def rows(self, x: Tensor) -> Tensor:
        """(n, 1 + 2d) float64: what each record adds to the sums."""
        v = x.to(torch.float64).flatten(2) if x.ndim > 2 else x.to(torch.float64)[:, :, None]
        if self.ranges:
            middle, half = (part[:, None] for part in _middles(self.ranges))
            v = ((v - middle) / half).clamp(-1, 1)
        ones = torch.ones(len(x), 1, dtype=torch.float64)
        return torch.cat([ones, v.mean(2), v.square().mean(2) - (0.5 if self.ranges else 0.0)], 1)

    def spread(self, sums: Tensor, noise: float = 0.0) -> Spread:
        """From the rows of all records added up; ``noise`` is the standard deviation of that on each sum.

        The noisier the sums, the more the result is what ranges alone say (the middle; a quarter of the width), and no
        standard deviation is below what the noise can tell apart from 0.
        """
        features = (len(sums) - 1) // 2
        records = max(float(sums[0]), 1.0)
        mean, square = sums[1 : 1 + features] / records, sums[1 + features :] / records
        if not self.ranges:
            variance = square - mean.square()
            return Spread(mean, torch.where(variance > ROUNDING * square, variance, 0.0).clamp(min=0).sqrt())
        mean, variance = _in_range(mean, square + 0.5, noise / records)
        middle, half = _middles(self.ranges)
        return Spread(middle + half * mean, half * variance.sqrt())


def _in_range(mean: Tensor, square: Tensor, error: float) -> tuple[Tensor, Tensor]:
    """Mean and variance of v; ``error``: the standard deviation of noise on both means."""
    mean = (mean * _trust(LIKELY_STD, error)).clamp(-1, 1)
    variance = (square - mean.square()).clamp(0, 1)
    if not error:
        return mean, torch.where(variance > ROUNDING, variance, 0.0)
    trust, likely = _trust(LIKELY_STD**2, error), LIKELY_STD**2
    return mean, (trust * variance + (1 - trust) * likely).clamp(min=min(error, likely))


def _trust(usual: float, error: float) -> float:
    """The weight of a noised value against what is usual: that of a normal prior."""
    return usual**2 / (usual**2 + error**2)


def _middles(ranges: Sequence[Range]) -> tuple[Tensor, Tensor]:
    """The middle and half the width of each."""
    low, high = torch.tensor(ranges, dtype=torch.float64).T
    return (low + high) / 2, (high - low) / 2
