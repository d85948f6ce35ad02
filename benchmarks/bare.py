"""What a researcher writes by hand in plain torch: no Understudy in here."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

Part = tuple[Tensor, Tensor]  # a client's records, scaled beforehand, and their labels


class Net(nn.Module):
    def __init__(self, body: nn.Sequential, head: nn.Linear):
        super().__init__()
        self.body, self.head = body, head

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(x))
        return logits


def simple_cnn() -> Net:
    """For 1×28×28, layer by layer as its paper writes it."""
    body = nn.Sequential(
        *[nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2)],
        *[nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)],
        nn.Flatten(),
        *[nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU()],
    )
    return Net(body, nn.Linear(84, 10))


def convnet(channels: int, side: int, *, width: int, depth: int) -> Net:
    layers: list[nn.Module] = []
    for block in range(depth):
        before = channels if block == 0 else width
        layers += [nn.Conv2d(before, width, 3, padding=1), nn.GroupNorm(width, width), nn.ReLU(), nn.AvgPool2d(2)]
    return Net(nn.Sequential(*layers, nn.Flatten()), nn.Linear(width * (side >> depth) ** 2, 10))


def federated_round(
    net: Net, start: Tensor, parts: Sequence[Part], orders: Sequence[Tensor], *, batch: int, lr: float
) -> Tensor:
    """Every client trains one epoch from ``start``; the mean of their weights, by records."""
    total, records = torch.zeros_like(start), 0
    for (x, y), order in zip(parts, orders, strict=True):
        vector_to_parameters(start.clone(), net.parameters())  # it makes them views of what it is given
        optimiser = torch.optim.SGD(net.parameters(), lr=lr)
        for rows in torch.split(order, batch):
            optimiser.zero_grad()
            functional.cross_entropy(net(x[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        total += parameters_to_vector(net.parameters()).detach() * len(y)
        records += len(y)
    return total / records


@dataclass(frozen=True)
class Matching:
    radius: float
    real_batch: int
    lr: float
    momentum: float


def match_class_by_class(
    net: Net,
    start: Tensor,
    real: Sequence[Tensor],
    images: Sequence[Tensor],
    steps: int,
    how: Matching,
    rng: torch.Generator,
) -> list[Tensor]:
    """FedDM's images, one class after another; ``real`` and ``images`` hold a tensor a class."""
    net.eval().requires_grad_(False)
    made = [x.clone().requires_grad_() for x in images]
    optimiser = torch.optim.SGD(made, lr=how.lr, momentum=how.momentum)
    for _ in range(steps):
        u = torch.randn(len(start), generator=rng)
        vector_to_parameters(start + u * min(1.0, how.radius / float(u.norm())), net.parameters())
        for records, x in zip(real, made, strict=True):
            chosen = records[torch.randperm(len(records), generator=rng)[: how.real_batch]]
            with torch.no_grad():
                h_real = net.body(chosen)
                z_real = net.head(h_real)
            h = net.body(x)
            loss = (h_real.mean(0) - h.mean(0)).square().sum() + (z_real.mean(0) - net.head(h).mean(0)).square().sum()
            (x.grad,) = torch.autograd.grad(loss, x)
        optimiser.step()
    return [x.detach() for x in made]
