"""How many examples of each class to make."""

import torch
from torch import Tensor


def largest_remainder(total: int, shares: Tensor) -> Tensor:
    """(classes,) int64 that sum to ``total`` exactly, as near to the whole-number ``shares`` as can be.

    Each class gets the whole part of its quota; what is left goes to the largest remainders (the smaller
    class number first among equals). Shares that sum to zero are taken as equal.
    """
    weights = shares.to(torch.int64)
    if int(weights.sum()) == 0:
        weights = torch.ones_like(weights)
    # In whole numbers throughout: equal remainders must be equal.
    counts, remainders = total * weights // weights.sum(), total * weights % weights.sum()
    order = torch.argsort(remainders, descending=True, stable=True)
    counts[order[: total - int(counts.sum())]] += 1
    return counts


def labels_from_counts(counts: Tensor) -> Tensor:
    """Class numbers in order, each as often as its count says."""
    return torch.repeat_interleave(torch.arange(len(counts)), counts)
