"""Floats minus their mean, divided by their standard deviation."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from understudy.data.examples import Examples
from understudy.data.problem import Categories, Problem

ScaleBy = Literal["none", "given", "site", "federated"]


@dataclass(frozen=True)
class Spread:
    """Per feature or channel, the first axis of a record: (d,) float64 each."""

    mean: Tensor
    std: Tensor

    @classmethod
    def of(cls, x: Tensor) -> "Spread":
        rows = x.to(torch.float64).transpose(0, 1).flatten(1)
        return cls(rows.mean(1), rows.std(1, correction=0))

    def applied(self, part: Examples) -> Examples:
        """A feature that never changes is only shifted."""
        across = (-1, *[1] * (part.x.ndim - 2))
        std = torch.where(self.std > 0, self.std, 1.0)
        scaled = (part.x.to(torch.float64) - self.mean.view(across)) / std.view(across)
        return replace(part, x=scaled.to(torch.float32))

    def undone(self, x: Tensor) -> Tensor:
        """Scaled records in their own units again, float64."""
        across = (-1, *[1] * (x.ndim - 2))
        std = torch.where(self.std > 0, self.std, 1.0)
        return x.to(torch.float64) * std.view(across) + self.mean.view(across)

    def sparing(self, categories: Categories) -> "Spread":
        """Words of categories stay 0 or 1."""
        mean, std = self.mean.clone(), self.std.clone()
        for first, words in categories:
            mean[first : first + words], std[first : first + words] = 0, 1
        return Spread(mean, std)


def by_constants(part: Examples, problem: Problem) -> Examples:
    """With ``data.mean`` and ``data.std``, if they were given; pixels stay pixels."""
    if not problem.mean or part.x.dtype == torch.uint8:
        return part
    mean, std = (torch.tensor(values, dtype=torch.float64) for values in (problem.mean, problem.std))
    return Spread(mean, std).sparing(problem.categories).applied(part)
