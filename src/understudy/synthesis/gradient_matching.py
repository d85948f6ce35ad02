"""Gradient matching: images whose gradient with respect to the weights resembles that of real records.

A parameter tensor is seen as rows (out × rest), and the distance measures the angles between rows. Two forms are in
use:

    rows="mean"   Σ_tensors mean_rows (1 − ⟨a/(‖a‖ + 1e-8), b/(‖b‖ + 1e-8)⟩); a 1-D tensor is a single row
                  (the released code of "FedLAP-DP: Federated Learning by Sharing Differentially Private Loss
                  Approximations")
    rows="sum"    Σ_tensors Σ_rows (1 − ⟨a, b⟩/(‖a‖‖b‖ + 1e-6)); 1-D tensors are left out
                  ("Dataset Condensation with Gradient Matching", and PSG after it)

plus ``mse`` times the squared distance of the whole vectors, since angles ignore lengths.

Where we depart: a bias in front of a GroupNorm has no gradient, but in floating point it has a little noise, whose
direction the first form would follow. A row below rounding error (``NOISE`` machine epsilons of the whole gradient) has
no direction: it counts as 1, as in exact arithmetic, and does not pull at any image.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from understudy.errors import UserError
from understudy.learning.dsa import Draw, apply
from understudy.models.network import Network
from understudy.synthesis.pullback import weight_gradient

NOISE = 8


@dataclass(frozen=True)
class Criterion:
    """How gradients are compared: by angles, angles and lengths, or (``cosine=False``) the squared distance alone."""

    rows: Literal["mean", "sum"] = "mean"
    cosine: bool = True
    mse: float = 0.0  # λ

    def __post_init__(self) -> None:
        if not self.cosine and not self.mse:
            raise UserError("A matching criterion needs angles (cosine) or a positive weight for mse.")


@dataclass(frozen=True)
class _Rows:
    """One parameter tensor's share: weight · Σ_rows (1 − ⟨a, real⟩ / (pace·‖a‖ + rest)), a the synthetic row."""

    where: slice
    real: Tensor  # (rows, rest)
    pace: Tensor  # (rows,)
    rest: float
    weight: float

    def distance(self, made: Tensor, floor: Tensor) -> Tensor:
        length = made.norm(dim=1)
        cosine = (made * self.real).sum(1) / (self.pace * length + self.rest)
        return self.weight * (1 - torch.where(length > floor, cosine, 0.0)).sum()

    def slope(self, made: Tensor, floor: Tensor) -> Tensor:
        """∂cos/∂a = real/s − ⟨a, real⟩·pace·a/(s²‖a‖), with s = pace·‖a‖ + rest."""
        length = made.norm(dim=1)
        below = self.pace * length + self.rest
        onto_real = torch.where(length > floor, self.weight / below, 0.0)
        onto_made = onto_real * (made * self.real).sum(1) * self.pace / (below * length.clamp(min=1e-30))
        return torch.addcmul(made * onto_made.unsqueeze(1), self.real, onto_real.unsqueeze(1), value=-1)


class Target:
    """A real gradient (flat, constant), prepared once for comparison with many gradients of images."""

    def __init__(self, net: Network, real: Tensor, criterion: Criterion):
        self._net, self._criterion = net, criterion
        self.real = real.detach().to(net.device)
        self._rows = list(self._prepared()) if criterion.cosine else []

    def _prepared(self) -> Iterator[_Rows]:
        floor = _floor(self.real)
        for where, shape in (self._net.windows[name] for name in self._net.trained):
            if len(shape) < 2 and self._criterion.rows == "sum":
                continue
            rows = self.real[where].view(shape[0] if len(shape) > 1 else 1, -1)
            length = rows.norm(dim=1)
            rows = torch.where((length > floor).unsqueeze(1), rows, 0.0)
            if self._criterion.rows == "sum":
                yield _Rows(where, rows, length, rest=1e-6, weight=1.0)
            else:
                units = rows / (length + 1e-8).unsqueeze(1)
                yield _Rows(where, units, torch.ones_like(length), rest=1e-8, weight=1 / len(rows))

    def distance(self, made: Tensor) -> Tensor:
        """D + λ‖made − real‖² of a flat gradient."""
        floor, found = _floor(made), made.new_zeros(())
        for rows in self._rows:
            found = found + rows.distance(made[rows.where].view_as(rows.real), floor)
        if self._criterion.mse:
            found = found + self._criterion.mse * (made - self.real).square().sum()
        return found

    def slope(self, made: Tensor) -> Tensor:
        """The gradient of the distance with respect to ``made``, in closed form, since for small networks torch's graph
        costs as much as a pass over the images."""
        floor = _floor(made)
        found = (made - self.real).mul_(2 * self._criterion.mse)
        for rows in self._rows:
            found[rows.where] += rows.slope(made[rows.where].view_as(rows.real), floor).view(-1)
        return found


def _floor(gradient: Tensor) -> Tensor:
    floor: Tensor = gradient.detach().norm() * (NOISE * torch.finfo(gradient.dtype).eps)
    return floor


class MovingImages:
    """Images under SGD; momentum lasts as long as this object (in FedLAP, one round)."""

    def __init__(self, x: Tensor, y: Tensor, *, lr: float, momentum: float):
        self.x, self.y, self._lr, self._momentum = x.detach().clone(), y, lr, momentum
        self._speed: Tensor | None = None

    def step(self, gradient: Tensor) -> None:
        self._speed = gradient.clone() if self._speed is None else self._speed.mul_(self._momentum).add_(gradient)
        self.x.sub_(self._speed, alpha=self._lr)


def image_gradient(net: Network, x: Tensor, y: Tensor, target: Target, draw: Draw | None = None) -> Tensor:
    """The gradient, with respect to the scaled images ``x``, of their distance to the target at ``net.vector``."""
    if draw is None:
        made, pull = weight_gradient(net, x, y)
        return pull(target.slope(made))
    x = x.detach().requires_grad_()
    seen = apply(draw, x)
    made, pull = weight_gradient(net, seen.detach(), y)
    return torch.autograd.grad(seen, x, pull(target.slope(made)))[0]


def match_gradient(
    net: Network,
    images: MovingImages,
    target: Target,
    *,
    steps: int,
    draw: Draw | None = None,
    rows: Tensor | None = None,
) -> None:
    """``steps`` image steps towards one real gradient, at ``net.vector`` and under one augmentation.

    With ``rows``, on the device of the images, only those are compared; momentum alone moves the others.
    """
    was_training = net.module.training
    net.module.eval()
    for _ in range(steps):
        if rows is None:
            gradient = image_gradient(net, images.x, images.y, target, draw)
        else:
            gradient = torch.zeros_like(images.x)
            gradient[rows] = image_gradient(net, images.x[rows], images.y[rows], target, draw)
        images.step(gradient)
    net.module.train(was_training)


def calibrated(net: Network, made: Tensor, real: Tensor) -> Tensor:
    """``made`` with each parameter tensor's part rescaled to its length in ``real``.

    A diagnostic of FedLAP's analysis at a single client: it uses the real lengths and has no private form.
    """
    scaled = made.clone()
    for where, _ in (net.windows[name] for name in net.trained):
        length = made[where].norm()
        scaled[where] *= torch.where(length > 0, real[where].norm() / length, 1.0)
    return scaled
