"""Inversion: inputs that a network assigns to given classes, and on which another network disagrees.

From "Fake It Till Make It: Federated Learning with Consensus-Oriented Generation", equations of the generation step: x̂
← argmin CE(θ(x̂), y) + λ_dis · (1 − JS(θ(x̂), θ_prev(x̂))).

All images go through the networks together. Smaller passes would give the same images and were measured to be slower:
for SimpleCNN at 28×28, 256 images in passes of 128, 64 and 32 take about 1.1, 1.25 and 1.4 times as long.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.learning.losses import per_record_loss
from understudy.models.network import Network
from understudy.synthesis.divergence import Divergence, jensen_shannon, log_chances
from understudy.synthesis.image_network import NOISE, new_image_network
from understudy.under_way import counted


@dataclass(frozen=True)
class Inversion:
    """What the inputs minimise, and how they move."""

    steps: int  # of Adam
    lr: float
    disagreement: float  # λ_dis
    divergence: Divergence = "exact"


def invert(net: Network, labels: Tensor, rng: torch.Generator, previous: Network | None, how: Inversion) -> Tensor:
    """(n, …) float inputs in the network's own space; the last iterate, unclamped. Both networks are frozen.

    ``labels`` is (n,), or (n, classes) of zeros and ones. With no steps the inputs stay the initial noise N(0, I).
    """
    x = torch.randn(len(labels), *net.problem.shape, generator=rng).to(net.device).requires_grad_()
    _minimise(net, labels, previous, how, torch.optim.Adam([x], lr=how.lr, betas=(0.5, 0.9)), lambda: x)
    return x.detach()


def invert_by_network(
    net: Network, labels: Tensor, rng: torch.Generator, previous: Network | None, how: Inversion
) -> Tensor:
    """The same for images drawn by a small network from noise: its weights and the noise are optimised."""
    draw = new_image_network(net.problem, rng).to(net.device)
    z = torch.randn(len(labels), NOISE, generator=rng).to(net.device).requires_grad_()
    adam = torch.optim.Adam([z, *draw.parameters()], lr=how.lr, betas=(0.5, 0.999))
    _minimise(net, labels, previous, how, adam, lambda: torch.as_tensor(draw(z)))
    with torch.no_grad():
        return torch.as_tensor(draw(z))


def _minimise(
    net: Network,
    labels: Tensor,
    previous: Network | None,
    how: Inversion,
    adam: torch.optim.Adam,
    images: Callable[[], Tensor],
) -> None:
    """Steps of ``adam`` on the loss of the images, which are made anew for each."""
    y, problem, learnt = labels.to(net.device), net.problem, adam.param_groups[0]["params"]
    with net.frozen(), previous.frozen() if previous is not None else torch.enable_grad():
        for _ in counted("moving records", range(how.steps), how.steps):
            x = images()
            logits = net(x)[1][:, : problem.classes]
            loss = per_record_loss(problem, logits, y).mean()
            if previous is not None and how.disagreement:
                here, there = log_chances(problem, logits), log_chances(problem, previous(x)[1])
                loss = loss + how.disagreement * (1 - jensen_shannon(here, there, how.divergence)).mean()
            for tensor, slope in zip(learnt, torch.autograd.grad(loss, learnt), strict=True):
                tensor.grad = slope
            adam.step()
