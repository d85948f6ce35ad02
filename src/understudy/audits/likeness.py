"""How alike two sets of points are: precision and recall, density and coverage, and the kernel distance KID.

Precision and recall as in "Improved Precision and Recall Metric for Assessing Generative Models", density and coverage
as in "Reliable Fidelity and Diversity Metrics for Generative Models", KID as in "Demystifying MMD GANs". A point lies
within a set if it is no farther from one of its points than that point's k-th neighbour in the set.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.synthesis.neighbours import nearest_few, squared_distances

NEIGHBOURS = 5  # k
FEWEST = 2 * NEIGHBOURS  # points in each set


@dataclass(frozen=True)
class Likeness:
    precision: float  # share of the made points that lie within the real ones
    recall: float  # share of the real points that lie within the made ones
    density: (
        float  # how many real neighbourhoods a made point lies in, over k; 1 is usual, more if it keeps to the middle
    )
    coverage: float  # share of the real points with a made one in their neighbourhood
    kid: float  # squared maximum mean discrepancy, unbiased: 0 on average if both come from one distribution


def likeness(made: Tensor, real: Tensor) -> Likeness | None:
    """Of two sets of features, (n, d) each; None if either has too few, or holds what is not finite."""
    if min(len(made), len(real)) < FEWEST or not bool(torch.isfinite(made).all() and torch.isfinite(real).all()):
        return None
    made, real = made.to(torch.float64), real.to(torch.float64)
    squared = torch.cat([part for _, part in squared_distances(made, real)], 1)  # (made, real)
    in_real, in_made = squared <= _reach(real).square(), squared <= _reach(made).square()[:, None]
    return Likeness(
        precision=_share(in_real.any(1)),
        recall=_share(in_made.any(0)),
        density=float(in_real.sum()) / (NEIGHBOURS * len(made)),
        coverage=_share(in_real.any(0)),
        kid=kernel_distance(made, real),
    )


def _reach(points: Tensor) -> Tensor:
    """(n,): the distance from each point to its k-th neighbour, not counting itself."""
    return nearest_few(points, points, NEIGHBOURS + 1)[0][:, -1]


def _share(found: Tensor) -> float:
    return float(found.to(torch.float64).mean())


def kernel_distance(made: Tensor, real: Tensor) -> float:
    """MMD² with the kernel (x·y/d + 1)³; without the diagonals, so it can fall below 0."""
    within = (_mean_off_diagonal(_kernel(points, points)) for points in (made, real))
    return float(sum(within) - 2 * _kernel(made, real).mean())


def _kernel(a: Tensor, b: Tensor) -> Tensor:
    return (a @ b.T / a.shape[1] + 1).pow(3)


def _mean_off_diagonal(table: Tensor) -> Tensor:
    n = len(table)
    return (table.sum() - table.diagonal().sum()) / (n * (n - 1))
