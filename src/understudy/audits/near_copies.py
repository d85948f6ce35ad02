"""Shared images that are nearer to a training record than other records ever come.

Two records of one distribution can lie close together, so a small distance by itself accuses nobody. Held-out records
show how near to the training records one comes by chance: an image below the 1 % quantile of their distances is a
near-copy. If images were as good as fresh records, 1 % of them would be. Where nothing was held out, the training
records show it themselves: how near each comes to the nearest other one.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from understudy.audits.attacks.points import points_of
from understudy.data.examples import Examples
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.synthesis import neighbours

BY_CHANCE = 0.01
MOST_COMPARED = 1000  # records whose distance to the nearest other one is measured


@dataclass(frozen=True)
class NearCopies:
    """One entry per shared image."""

    near: Tensor  # (n,) bool
    quantile: Tensor  # (n,): share of held-out records that are at least as near to their nearest training record
    distance: Tensor  # (n,) to the nearest training record, as the network sees them; infinite if not finite itself
    record: Tensor  # (n,) int64: which record that is
    threshold: float  # distances below it are near

    @property
    def share(self) -> float:
        return float(self.near.to(torch.float64).mean()) if len(self.near) else 0.0

    def nearest_first(self, most: int) -> list[int]:
        """The images nearest to a record, for a look at them."""
        return [int(i) for i in self.distance.argsort(stable=True)[:most]]


def near_copies(
    shared: Examples, own: Examples, held_out: Examples, problem: Problem, at: float = BY_CHANCE
) -> NearCopies:
    """Which of ``shared`` are nearer to a record of ``own`` than all but ``at`` of ``held_out``."""
    if not len(own) or not len(held_out):
        raise UserError(
            f"Near-copies are judged by how near held-out records come to training records, "
            f"but there are {len(held_out)} held-out and {len(own)} training records; give some of both."
        )
    return _judged(nearest(held_out, own, problem)[0], shared, own, problem, at)


def near_copies_by_own(shared: Examples, own: Examples, problem: Problem, at: float = BY_CHANCE) -> NearCopies | None:
    """The same by the distances of records to the nearest other record; None if they do not differ from one another."""
    some = own.take(torch.linspace(0, len(own) - 1, min(len(own), MOST_COMPARED)).long())
    rows, among = points_of(some, problem).x, points_of(own, problem).x
    usual = neighbours.nearest(rows, among, others_only=True)[0]
    usual = usual[usual.isfinite()]
    return _judged(usual, shared, own, problem, at) if len(usual) else None


def _judged(distances: Tensor, shared: Examples, own: Examples, problem: Problem, at: float) -> NearCopies:
    usual = np.sort(distances.numpy())
    threshold = float(np.quantile(usual, at))
    distance, record = nearest(shared, own, problem)
    quantile = torch.from_numpy(np.searchsorted(usual, distance.numpy(), side="right") / len(usual))
    return NearCopies(distance < threshold, quantile, distance, record, threshold)


def nearest(shared: Examples, own: Examples, problem: Problem) -> tuple[Tensor, Tensor]:
    """(n,) distances to the nearest record of any class, and (n,) which it is; of equally near ones the first."""
    if not len(shared):
        return torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.int64)
    return neighbours.nearest(points_of(shared, problem).x, points_of(own, problem).x)
