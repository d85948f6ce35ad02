"""The quantities in the theory of data shuffling, measured at one shared model.

Paper: Synthetic data shuffling accelerates the convergence of federated learning under data heterogeneity, its
assumptions on dissimilarity (ζ²), noise (σ²) and smoothness (L), and its Lemma 1. With f = mean_k f_k:

    ζ² = mean_k ‖∇f_k − ∇f‖²        σ² = mean_k E‖∇F − ∇f_k‖²        δ² = ‖∇f(w, D) − ∇f(w, D̃)‖²

Everything is exact, from the gradient of every single record in evaluation mode. A set of records is summarised by its
size, its mean gradient and its noise; those of a union follow from its parts, so each record is looked at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from understudy.data.examples import Examples
from understudy.errors import UserError
from understudy.learning.losses import per_record_loss
from understudy.models.classifier import RawLogits
from understudy.models.network import Network

FLOATS_AT_ONCE = 10_000_000  # of per-record gradients: limits a pass's memory


@dataclass(frozen=True)
class Slopes:
    """The gradients of some records at one model, summarised."""

    records: int
    mean: Tensor  # (parameters,) float64: the gradient of their mean loss
    noise: float  # the mean of ‖gᵢ − mean‖²

    @classmethod
    def of(cls, gradients: Tensor) -> "Slopes":
        """From (n, parameters), one gradient per row."""
        rows = gradients.double()
        mean = rows.mean(0)
        return cls(len(rows), mean, float((rows - mean).square().sum(1).mean()))

    def and_also(self, other: "Slopes") -> "Slopes":
        """Both sets together: with p the other's share, noise (1−p)·σ² + p·σ̃² + p(1−p)·‖difference of means‖²."""
        if not self.records or not other.records:
            return self if self.records else other
        p = other.records / (self.records + other.records)
        apart = float((self.mean - other.mean).square().sum())
        noise = (1 - p) * self.noise + p * other.noise + p * (1 - p) * apart
        return Slopes(self.records + other.records, (1 - p) * self.mean + p * other.mean, noise)


@dataclass(frozen=True)
class Heterogeneity:
    zeta2: float  # ζ²
    sigma2: float  # σ²
    gradient: Tensor  # ∇f, clients weighted equally


def heterogeneity(clients: Sequence[Slopes]) -> Heterogeneity:
    """Over clients, weighted equally; those without records do not count."""
    present = [one for one in clients if one.records]
    if not present:
        raise UserError("No client has a record, so there is nothing to measure.")
    means = torch.stack([one.mean for one in present])
    gradient = means.mean(0)
    zeta2 = float((means - gradient).square().sum(1).mean())
    return Heterogeneity(zeta2, sum(one.noise for one in present) / len(present), gradient)


def shuffled_bounds(before: Heterogeneity, pool: Slopes, p: float) -> tuple[float, float]:
    """Lemma 1: bounds on ζ_p² and σ_p² for clients that mix a share ``p`` of the pool into their own distribution."""
    delta2 = distance2(before.gradient, pool.mean)
    zeta2 = (1 - p) ** 2 * before.zeta2
    return zeta2, (1 - p) * before.sigma2 + p * pool.noise + p * (1 - p) * (before.zeta2 + delta2)


def distance2(one: Tensor, other: Tensor) -> float:
    return float((one - other).square().sum())


# ---- of a network


def slopes(net: Network, w: Tensor, examples: Examples) -> Slopes:
    """The gradients of records at the weights ``w``, a few at a time."""
    found = Slopes(0, torch.zeros(net.parameters, dtype=torch.float64), 0.0)
    net.load(w)
    rows = max(1, FLOATS_AT_ONCE // net.parameters)
    each = _single_gradients(net)
    for some in examples.batches(rows):
        there = some.to(net.device)
        found = found.and_also(Slopes.of(each(net.problem.scale(there.x), there.y).cpu()))
    return found


def _single_gradients(net: Network) -> Callable[[Tensor, Tensor], Tensor]:
    """(n, parameters) from scaled records and labels; in evaluation mode no layer mixes records."""

    def loss(trained: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return per_record_loss(net.problem, _logits(net, trained, x[None]), y[None]).sum()

    through = vmap(grad(loss), in_dims=(None, 0, 0))

    def gradients(x: Tensor, y: Tensor) -> Tensor:
        with net.frozen():
            found: Tensor = through(net.vector[net.trainable].detach(), x, y)
        return found

    return gradients


def _logits(net: Network, trained: Tensor, x: Tensor) -> Tensor:
    """Through the plain layers, without the network's memory layout, which vmap does not support."""
    windows = {name: net.windows[name] for name in net.trained}
    inside = {name: trained[where].view(shape) for name, (where, shape) in windows.items()}
    found: Tensor = functional_call(RawLogits(net.module, net.problem), net.placed(inside), (x,))
    return found


# ---- smoothness


def largest_curvature(
    times: Callable[[Tensor], Tensor], start: Tensor, *, steps: int = 50, tolerance: float = 1e-3
) -> float:
    """The largest |eigenvalue| of a symmetric matrix, given as a function of a vector, by power iteration."""
    v, found = start / start.norm(), 0.0
    for _ in range(steps):
        image = times(v)
        before, found = found, float(image.norm())
        if found == 0:
            return 0.0
        v = image / found
        if abs(found - before) <= tolerance * found:
            break
    return found


def smoothness(
    net: Network, w: Tensor, clients: Sequence[Examples], rng: torch.Generator, *, steps: int = 50, batch: int = 500
) -> float:
    """L: the largest curvature at ``w`` of f, the mean over clients of their mean losses."""
    present = [one for one in clients if len(one)]
    net.load(w)
    here = net.vector[net.trainable].detach().clone()

    def times(v: Tensor) -> Tensor:
        total = torch.zeros_like(here)
        for one in present:
            for some in one.batches(batch):
                there, share = some.to(net.device), 1 / (len(present) * len(one))
                total += share * _curved(net, here, net.problem.scale(there.x), there.y, v)
        return total

    start = torch.randn(len(here), generator=rng).to(net.device)
    with net.frozen():
        return largest_curvature(times, start, steps=steps)


def _curved(net: Network, here: Tensor, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
    """The Hessian of the records' summed loss, times ``v``."""
    trained = here.detach().requires_grad_()
    loss = per_record_loss(net.problem, _logits(net, trained, x), y).sum()
    (gradient,) = torch.autograd.grad(loss, trained, create_graph=True)
    (product,) = torch.autograd.grad(gradient @ v, trained)
    return product
