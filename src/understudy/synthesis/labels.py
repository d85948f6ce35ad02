"""How many examples of each class to make."""

import torch
from torch import Tensor


def largest_remainder(total: int, shares: Tensor) -> Tensor:
    """(classes,) int64 that sum to ``total`` exactly, as near to the shares as whole numbers can be.

    Each class gets the whole part of its quota; what is left goes to the largest remainders (the smaller
    class number first among equals). Shares that sum to zero are taken as equal.
    """
    weights = shares.to(torch.float64)
    if float(weights.sum()) == 0:
        weights = torch.ones_like(weights)
    quota = total * weights / weights.sum()
    counts = quota.floor().to(torch.int64)
    order = torch.argsort(quota - counts, descending=True, stable=True)
    counts[order[: total - int(counts.sum())]] += 1
    return counts


def labels_from_counts(counts: Tensor) -> Tensor:
    """Class numbers in order, each as often as its count says."""
    return torch.repeat_interleave(torch.arange(len(counts)), counts)
