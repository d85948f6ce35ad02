"""Means and covariances of classes from sums over records, and images drawn from them.

A record is a short vector u of norm at most 1: the lowest frequencies of its cosine transform, clipped. Everything that
a party adds up over its records has norm at most 1 per record, so that noise can cover it (`privacy.mechanism`); the
rest of this file works on sums that may hold noise, whose size is known.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

CLEARLY = 2.0  # standard deviations of its noise above 0: then a count is taken to be one


def cosines(shape: tuple[int, ...], most: int) -> Tensor:
    """(d, numbers of a record), orthonormal rows: per channel the ``most``·``most`` lowest frequencies of an image; of
    other records every number by itself."""
    if len(shape) != 3:
        return torch.eye(math.prod(shape))
    channels, high, wide = shape
    waves = torch.kron(_waves(high, min(most, high)), _waves(wide, min(most, wide)))
    return torch.kron(torch.eye(channels, dtype=torch.float64), waves).to(torch.float32)


def _waves(length: int, most: int) -> Tensor:
    at, order = torch.arange(length, dtype=torch.float64) + 0.5, torch.arange(most, dtype=torch.float64)[:, None]
    waves = torch.cos(math.pi * order * at / length) * math.sqrt(2 / length)
    waves[0] /= math.sqrt(2)
    return waves


def packed(squares: Tensor) -> Tensor:
    """Symmetric (…, d, d) as (…, d(d+1)/2) of the same norm: what is there twice counts √2."""
    (i, j), factor = _triangle(squares.shape[-1])
    return squares[..., i, j] * factor.to(squares.dtype)


def unpacked(packs: Tensor, d: int) -> Tensor:
    (i, j), factor = _triangle(d)
    halves = packs / factor.to(packs.dtype)
    squares = packs.new_zeros(*packs.shape[:-1], d, d)
    squares[..., i, j] = halves
    squares[..., j, i] = halves
    return squares


def _triangle(d: int) -> tuple[Tensor, Tensor]:
    at = torch.triu_indices(d, d)
    return at, torch.where(at[0] == at[1], 1.0, math.sqrt(2))


# ---- the sums of all parties together


@dataclass(frozen=True)
class Weighing:
    """How the sums of parties are combined for each class.

    A party without records of a class sends noise alone, and one with many sends the clearest sum: the weight is the
    noised count, which is best where noise outweighs the spread of records, or 0 if the count may be noise.
    """

    factors: Tensor  # (parties, classes); Σ factor · sum is a mean over records
    counts: Tensor  # (classes,), of the parties that count; 0: nobody seems to hold that class

    @classmethod
    def by(cls, counts: Tensor, noise: float) -> "Weighing":
        """``counts``: (parties, classes), with noise of that standard deviation."""
        weights = torch.where(counts > CLEARLY * noise, counts, 0.0).clamp(min=0)
        factors = weights / (weights * counts).sum(0).clamp(min=torch.finfo(counts.dtype).tiny)
        return cls(factors, (counts * (weights > 0)).sum(0))

    def mean(self, sums: Tensor) -> Tensor:
        """(classes, d) from (parties, classes, d)."""
        mean: Tensor = torch.einsum("kc,kcd->cd", self.factors, sums)
        return mean

    @property
    def noise(self) -> Tensor:
        """(classes,): the standard deviation in a mean, if it is 1 in each sum."""
        return self.factors.square().sum(0).sqrt()

    @property
    def shares(self) -> Tensor:
        return self.counts / self.counts.sum().clamp(min=1)


def edge(noise: float, d: int) -> float:
    """The largest eigenvalue of a packed d × d matrix that is nothing but noise of that standard deviation."""
    return 2 * noise * math.sqrt(d / 2)


def principal(square: Tensor, below: float) -> tuple[Tensor, Tensor]:
    """Eigenvectors as columns, and eigenvalues less ``below``, the largest first; none is negative."""
    values, axes = _eigen(square)
    return axes.flip(1), (values.flip(0) - below).clamp(min=0)


def trimmed(square: Tensor, by: float) -> Tensor:
    """With every eigenvalue ``by`` nearer to 0."""
    values, axes = _eigen(square)
    shrunk: Tensor = values.sign() * (values.abs() - by).clamp(min=0)
    return (axes * shrunk) @ axes.T


def root(square: Tensor) -> Tensor:
    """L with L Lᵀ = square, or the nearest that can be."""
    values, axes = _eigen(square)
    return axes * values.clamp(min=0).sqrt()


def _eigen(square: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, the smallest first, and eigenvectors as columns."""
    values, axes = torch.linalg.eigh(square)
    return values, axes
