"""Draws in which every stratum (class, cell) gives its share."""

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def largest_remainder(quotas: NDArray[np.float64], total: int) -> Indices:
    """Whole numbers that sum to ``total``, each within one of its quota; ties go to the first."""
    counts = np.floor(quotas).astype(np.int64)
    left = total - int(counts.sum())
    by_remainder = np.argsort(counts - quotas, kind="stable")
    counts[by_remainder[:left]] += 1
    return counts


def draw_share(strata: Indices, share: float, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """(drawn, left): each stratum gives its own rounded share, so equal strata stay equal."""
    levels, sizes = np.unique(strata, return_counts=True)
    return _draw(strata, levels, np.floor(sizes * share + 0.5).astype(np.int64), rng)


def draw_exactly(strata: Indices, total: int, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """(drawn, left): ``total`` drawn in all, from each stratum in proportion to its size."""
    levels, sizes = np.unique(strata, return_counts=True)
    if total >= len(strata):
        return np.arange(len(strata)), np.empty(0, np.int64)
    quotas = sizes.astype(np.float64) * (total / len(strata))
    return _draw(strata, levels, largest_remainder(quotas, total), rng)


def _draw(strata: Indices, levels: Indices, counts: Indices, rng: np.random.Generator) -> tuple[Indices, Indices]:
    taken = np.zeros(len(strata), dtype=bool)
    for level, count in zip(levels, counts, strict=True):
        taken[rng.permutation(np.flatnonzero(strata == level))[:count]] = True
    return np.flatnonzero(taken), np.flatnonzero(~taken)
