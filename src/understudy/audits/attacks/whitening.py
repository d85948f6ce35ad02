"""Points in coordinates in which the reference records of every class have mean 0 and (nearly) unit covariance.

There, likelihoods of Gaussians are dot products. The covariance of a class is drawn towards the pooled one, the more so
the fewer records it has; coordinates are ordered by how much records vary along them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.audits.attacks.points import Points, class_count, points_of
from understudy.audits.sighting import View
from understudy.synthesis.neighbours import AT_ONCE

COMPONENTS = 100
FEWEST_RECORDS = 20
RECORDS_PER_COMPONENT = 5
ROWS_FOR_COMPONENTS = 2000  # enough for a hundred components; the time grows with the cube
CLASS_SHARE = 0.5  # weight of a class's own covariance, with many records
RIDGE = 0.01  # of the mean variance, added to each
NOTHING = 1e-10  # of the largest variance: rounding


@dataclass(frozen=True)
class Whitening:
    means: Tensor  # (classes, k): of components
    basis: Tensor  # (d, k)
    scales: Tensor  # (k,)
    turns: Tensor  # (classes, k, k)

    def components(self, rows: Points, most: int | None = None) -> Tensor:
        """(n, k) float64: principal components, neither centred nor scaled."""
        return _times(rows.x, self.basis[:, :most])

    def __call__(self, rows: Points) -> Tensor:
        """(n, k) float64."""
        z = (self.components(rows) - self.means[rows.y]) / self.scales
        white = torch.empty_like(z)
        for c in rows.classes:
            own = rows.y == c
            white[own] = z[own] @ self.turns[c]
        return white


def whitened_reference(view: View) -> tuple[Points, Whitening]:
    """The reference records as rows, and what whitens them."""

    def make() -> tuple[Points, Whitening]:
        reference = points_of(view.reference, view.net.problem)
        return reference, whitening(reference, class_count(view.net.problem))

    return view.once(("whitened reference",), make)


def whitening(reference: Points, classes: int) -> Whitening:
    means = _class_means(reference, classes)
    some = torch.linspace(0, len(reference) - 1, min(len(reference), ROWS_FOR_COMPONENTS)).round().to(torch.int64)
    most = max(1, min(COMPONENTS, len(reference) // RECORDS_PER_COMPONENT))
    basis = _main_directions(reference.x[some].to(torch.float64) - means[reference.y[some]], most)
    spread = _times(reference.x, basis) - (means @ basis)[reference.y]
    variances = spread.square().mean(0)
    scales = (variances + RIDGE * variances.mean()).clamp(min=1e-30).sqrt()
    turns = [_turn(spread[reference.y == c] / scales) for c in range(classes)]
    return Whitening(means @ basis, basis, scales, torch.stack(turns))


def _class_means(reference: Points, classes: int) -> Tensor:
    """(classes, d), each with one more record at the mean of all: a class without records has that mean."""
    sums = torch.zeros(classes, reference.x.shape[1], dtype=torch.float64)
    for x, y in zip(torch.split(reference.x, AT_ONCE), torch.split(reference.y, AT_ONCE), strict=True):
        sums.index_add_(0, y, x.to(torch.float64))
    counts = torch.bincount(reference.y, minlength=classes)
    return (sums + sums.sum(0) / len(reference)) / (counts[:, None] + 1)


def _main_directions(centred: Tensor, most: int) -> Tensor:
    """(d, k): the directions of largest variance, by the smaller of the two matrices of products."""
    wide = centred.shape[1] > len(centred)
    values, vectors = torch.linalg.eigh(centred @ centred.T if wide else centred.T @ centred)
    values, vectors = values.flip(0)[:most], vectors.flip(1)[:, :most]
    real = values > NOTHING * values[0]
    real[0] = True
    values, vectors = values[real], vectors[:, real]
    found: Tensor = centred.T @ vectors / values.clamp(min=1e-30).sqrt() if wide else vectors
    return found


def _turn(z: Tensor) -> Tensor:
    """(k, k): makes the covariance of a class the identity, so far as its records can tell."""
    k = z.shape[1]
    share = CLASS_SHARE * len(z) / (len(z) + k)
    covariance = (1 - share) * torch.eye(k, dtype=torch.float64) + share * (z.T @ z) / max(len(z), 1)
    factor = torch.linalg.cholesky(covariance)
    turn: Tensor = torch.linalg.solve_triangular(factor, torch.eye(k, dtype=torch.float64), upper=False).T
    return turn


def _times(x: Tensor, matrix: Tensor) -> Tensor:
    return torch.cat([part.to(torch.float64) @ matrix for part in torch.split(x, AT_ONCE)])
