"""How many examples of each class to make, or with which labels; how a generator is given them."""

import torch
from torch import Tensor
from torch.nn import functional

from understudy.data.problem import Problem
from understudy.errors import UserError


def largest_remainder(total: int, shares: Tensor) -> Tensor:
    """(classes,) int64 that sum to ``total`` exactly, as close as possible to the whole-number ``shares``.

    Each class gets the whole part of its quota; the rest goes to the largest remainders (the smaller class number
    first among equals). Shares that sum to zero count as equal.
    """
    weights = shares.to(torch.int64)
    if int(weights.sum()) == 0:
        weights = torch.ones_like(weights)
    # Whole numbers throughout, so that equal remainders compare equal.
    counts, remainders = total * weights // weights.sum(), total * weights % weights.sum()
    order = torch.argsort(remainders, descending=True, stable=True)
    counts[order[: total - int(counts.sum())]] += 1
    return counts


def labels_from_counts(counts: Tensor) -> Tensor:
    """Class numbers in order, each repeated by its count."""
    return torch.repeat_interleave(torch.arange(len(counts)), counts)


def label_sets(images: int, a_record: float, shares: Tensor, rng: torch.Generator) -> Tensor:
    """(images, classes) zeros and ones: some labels for each image, those with large ``shares`` more often.

    The images have ``a_record`` labels on average, rounded to a whole number in total; the numbers per image differ by
    at most one, and each image has at least one. An image's labels are drawn one after another, each with probability
    proportional to its share among those left; a label without a share comes last.
    """
    classes = len(shares)
    least, most = images, images * classes
    total = min(max(round(images * a_record), least), most)
    each = torch.full((images,), total // images)
    each[: total % images] += 1
    weights = torch.ones(classes) if int(shares.sum()) == 0 else shares
    # Independent exponential clocks with these rates ring in the order of such a draw.
    rings = torch.empty(images, classes, dtype=torch.float64).exponential_(generator=rng) / weights
    order = torch.argsort(rings, dim=1, stable=True)
    taken = (torch.arange(classes) < each[:, None]).to(torch.float32)
    return torch.zeros(images, classes).scatter_(1, order, taken)


def told_in_full(y: Tensor, problem: Problem) -> Tensor:
    """(n, classes) of zeros and ones."""
    return y.to(torch.float32) if problem.multilabel else functional.one_hot(y, problem.classes).float()


def groups_of(y: Tensor, problem: Problem) -> tuple[Tensor, int]:
    """Which group each record belongs to, and how many groups there are: its class, or one for all if records have
    several labels."""
    return (torch.zeros(len(y), dtype=torch.int64), 1) if problem.multilabel else (y, problem.classes)


def require_seen(group: Tensor, count: Tensor) -> None:
    """``count``: how many records of each group a generator was fitted on."""
    unseen = sorted(set(group[count[group] == 0].tolist()))
    if unseen:
        raise UserError(f"The generator has seen no record of class {unseen[0]}; ask for others.")
