"""The losses of a GAN's judge and painter, per image.

Hinge: the judge max(0, 1 − s) on real and max(0, 1 + s) on painted images, the painter −s. Non-saturating: softplus(−s)
and softplus(s), the painter softplus(−s). s is the judge's score, larger for what looks real.

In addition, by variant (x an image, T its augmentation):

- plain: nothing;
- diffaugment (Differentiable Augmentation for Data-Efficient GAN Training): T(x) replaces x everywhere;
- consistency (Improved Consistency Regularization for GANs, its balanced form): the judge pays λ·(s(x) − s(T(x)))²
  on real images and on painted ones;
- negative (Negative Data Augmentation): of what the judge must call painted, a share are spoilt real images, with
  their quarters rearranged.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

Variant = Literal["plain", "diffaugment", "consistency", "negative"]
Loss = Literal["hinge", "non-saturating"]
Score = Callable[[Tensor, Tensor], Tensor]  # images, encoded labels -> (n,)
CostOfScore = Callable[[Tensor, Loss], Tensor]

ORDERS = list(permutations(range(4)))[1:]  # of four quarters, all but the original


def real_cost(score: Tensor, loss: Loss) -> Tensor:
    """The judge's loss on a real image."""
    return functional.relu(1 - score) if loss == "hinge" else functional.softplus(-score)


def painted_cost(score: Tensor, loss: Loss) -> Tensor:
    """The judge's loss on a painted image."""
    return functional.relu(1 + score) if loss == "hinge" else functional.softplus(score)


def painter_cost(score: Tensor, loss: Loss) -> Tensor:
    return -score if loss == "hinge" else functional.softplus(-score)


@dataclass(frozen=True)
class Terms:
    """The judge's loss, (n,), on images that come with their changed versions."""

    variant: Variant
    loss: Loss
    consistency: float  # λ
    negative: float  # share

    def real(self, score: Score, x: Tensor, changed: Tensor, told: Tensor) -> Tensor:
        cost = self._on_either(real_cost, score, x, changed, told)
        if self.variant == "negative":
            return cost + self.negative * painted_cost(score(changed, told), self.loss)
        return cost

    def painted(self, score: Score, x: Tensor, changed: Tensor, told: Tensor) -> Tensor:
        cost = self._on_either(painted_cost, score, x, changed, told)
        return (1 - self.negative) * cost if self.variant == "negative" else cost

    def _on_either(self, of: CostOfScore, score: Score, x: Tensor, changed: Tensor, told: Tensor) -> Tensor:
        if self.variant == "diffaugment":
            return of(score(changed, told), self.loss)
        here = score(x, told)
        cost = of(here, self.loss)
        if self.variant == "consistency":
            return cost + self.consistency * (here - score(changed, told)).square()
        return cost


def other_orders(u: Tensor) -> Tensor:
    """(n, 4): orders of the quarters of n images, each one of the 23 new ones, chosen by ``u``, (n,) in [0, 1)."""
    return torch.tensor(ORDERS)[(u * len(ORDERS)).long().clamp(max=len(ORDERS) - 1)]


def quarters_moved(x: Tensor, order: Tensor) -> Tensor:
    """Each image with its four quarters in its own ``order``, (n, 4).

    The middle row or column of an odd side stays where it is.
    """
    high, wide = x.shape[2] // 2, x.shape[3] // 2
    corners = [(slice(a, a + high), slice(b, b + wide)) for a in (0, x.shape[2] - high) for b in (0, x.shape[3] - wide)]
    parts = torch.stack([x[:, :, rows, columns] for rows, columns in corners], 1)
    moved = parts[torch.arange(len(x), device=x.device).unsqueeze(1), order]
    spoilt = x.clone()
    for at, (rows, columns) in enumerate(corners):
        spoilt[:, :, rows, columns] = moved[:, at]
    return spoilt
