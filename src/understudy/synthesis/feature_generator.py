"""A generator of features: what the body of a classifier might compute for a record of a given class.

From "Data-Free Knowledge Distillation for Heterogeneous Federated Learning": [ε ‖ one-hot y], ε ~ U(0, 1) → linear,
BatchNorm, ReLU → linear. It is a Network like any other, so a generator is one flat vector, too.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from understudy.data.problem import Problem
from understudy.models.classifier import Classifier
from understudy.models.network import Network
from understudy.synthesis.divergence import kullback_leibler


class FeatureGenerator:
    def __init__(self, classes: int, features: int, *, noise: int, hidden: int, device: torch.device | str = "cpu"):
        def build() -> nn.Module:
            body = nn.Sequential(nn.Linear(noise + classes, hidden), nn.BatchNorm1d(hidden), nn.ReLU())
            return Classifier(body, nn.Linear(hidden, features))

        self.classes, self.noise = classes, noise
        self.net = Network(build, Problem(shape=(noise + classes,), classes=features), device=device)

    def first(self, rng: torch.Generator) -> Tensor:
        return self.net.redrawn(int(torch.randint(2**62, (), generator=rng)))

    def draw_noise(self, *shape: int, rng: torch.Generator) -> Tensor:
        """On the processor."""
        return torch.rand(*shape, self.noise, generator=rng)

    def make(self, noise: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
        """(n, features), with the loaded weights or others."""
        told = torch.cat([noise, F.one_hot(y, self.classes).to(noise.dtype)], 1)
        return self.net.at(self.net.vector if weights is None else weights, told)[1]


def teachers_loss(logits: Sequence[Tensor], y: Tensor, shares: Tensor) -> Tensor:
    """Σ_k mean_i α_{k,y_i} · CE(logits_k,i, y_i); ``shares`` is α, (teachers, classes)."""
    lost = torch.stack([F.cross_entropy(found, y, reduction="none") for found in logits])
    return (lost * shares[:, y]).mean(1).sum()


def sameness(noise: Tensor, made: Tensor) -> Tensor:
    """exp(−mean_ij u_ij v_ij), u = mean (ε_i − ε_j)² and v = mean |G_i − G_j| over coordinates; 1 if all are equal."""
    u = (noise[:, None] - noise).square().mean(2)
    v = (made[:, None] - made).abs().mean(2)
    return torch.exp(-(u * v).mean())


def divergence_from(student: Tensor, teachers: Tensor) -> Tensor:
    """(n,) KL(softmax teachers ‖ softmax student), from logits."""
    return kullback_leibler(teachers.log_softmax(1), student.log_softmax(1))
