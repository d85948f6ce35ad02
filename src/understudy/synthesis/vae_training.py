"""How a β-VAE is trained: the objective with rising capacity, and the loop that lowers it.

The objective is eq. 8 of Understanding disentangling in β-VAE, with Bernoulli pixels:

    −log p(x|z) + γ·|KL(q(z|x) ‖ N(0, I)) − C(t)|,   C(t) rising from 0 to ``capacity``.
"""

from collections.abc import Iterator
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from understudy.settings import Settings
from understudy.synthesis.vae_networks import Decoder, Encoder


class VaeSettings(Settings):
    """The defaults are Fedssyn's for dSprites."""

    epochs: int = Field(default=360, ge=1)
    least_steps: int = Field(default=0, ge=0)  # few records: more epochs, until so many updates were made
    batch: int = Field(default=256, ge=1)
    lr: float = Field(default=5e-4, gt=0)  # of Adam
    latent: int = Field(default=10, ge=1)
    gamma: float = Field(default=100.0, ge=0)  # γ
    capacity: float = Field(default=20.0, ge=0)  # C at its height, in nats
    capacity_share: float = Field(default=24 / 360, ge=0, le=1)  # of all steps, in which C rises from 0
    width: int = Field(default=32, ge=1)  # channels of every convolution
    hidden: int = Field(default=256, ge=1)  # units of the dense layers
    spread: Literal["unit", "class"] = "unit"  # of the latent a class is drawn from: N(μ_c, I), or its own
    conditional: bool = False  # encoder and decoder are told the label

    def steps(self, records: int) -> int:
        return max(self.epochs * -(-records // self.batch), self.least_steps)

    def capacity_at(self, step: int, steps: int) -> float:
        """C(t): from 0 to ``capacity``, in a straight line over the first ``capacity_share`` of all steps."""
        rise = self.capacity_share * steps
        return self.capacity if step >= rise else self.capacity * step / rise


def divergence_from_unit(mean: Tensor, log_variance: Tensor) -> Tensor:
    """(n,) KL(N(mean, variance) ‖ N(0, I)) = ½ Σ (μ² + σ² − ln σ² − 1), in nats."""
    return (mean.square() + log_variance.exp() - log_variance - 1).sum(1) / 2


def objective(logits: Tensor, x: Tensor, divergence: Tensor, gamma: float, capacity: float) -> Tensor:
    """Reconstruction, summed over pixels and averaged over the batch, + γ·|KL − C|."""
    pixels = functional.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
    return pixels + gamma * (divergence.mean() - capacity).abs()


def train(
    encoder: Encoder, decoder: Decoder, x: Tensor, told: Tensor, settings: VaeSettings, rng: torch.Generator
) -> None:
    """``x``: pixels between 0 and 1; ``told``: (n, t), what encoder and decoder are told of the labels."""
    adam = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=settings.lr, fused=True)
    steps = settings.steps(len(x))
    for step, rows in enumerate(_batches(len(x), settings.batch, steps, rng)):
        images, labels = x[rows], told[rows]
        mean, log_variance = encoder(images, labels)
        noise = torch.randn(mean.shape, generator=rng)
        logits = decoder(mean + noise * (log_variance / 2).exp(), labels)
        divergence = divergence_from_unit(mean, log_variance)
        loss = objective(logits, images, divergence, settings.gamma, settings.capacity_at(step, steps))
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()


def _batches(records: int, batch: int, steps: int, rng: torch.Generator) -> Iterator[Tensor]:
    """So many batches of indices; each record once an epoch."""
    left = steps
    while left > 0:
        for rows in torch.split(torch.randperm(records, generator=rng), batch)[:left]:
            left -= 1
            yield rows
