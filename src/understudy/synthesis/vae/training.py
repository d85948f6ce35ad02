"""How a β-VAE is trained: the objective with rising capacity, and the loops that minimise it.

The objective is eq. 8 of Understanding disentangling in β-VAE, with Bernoulli pixels (for floats see `vae.rows`):

    −log p(x|z) + γ·|KL(q(z|x) ‖ N(0, I)) − C(t)|,   C(t) rising from 0 to ``capacity``.
"""

from collections.abc import Callable, Iterator
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn import functional

from understudy.learning.ahead import ahead
from understudy.learning.plan import shuffled_batches
from understudy.privacy.sgd import PrivateGradients, PrivateSteps, RecordLoss, fill_gradients
from understudy.synthesis.generator import CourseSettings
from understudy.synthesis.vae.networks import Autoencoder
from understudy.under_way import counted

RowCost = Callable[[Tensor, Tensor], Tensor]


class VaeSettings(CourseSettings):
    """The defaults are Fedssyn's for dSprites."""

    epochs: int = Field(default=360, ge=1)
    batch: int = Field(default=256, ge=1)
    lr: float = Field(default=5e-4, gt=0)  # learning rate of Adam
    latent: int = Field(default=10, ge=1)  # length of the latent vector
    gamma: float = Field(default=100.0, ge=0)  # γ, weight of |KL − C|
    capacity: float = Field(default=20.0, ge=0)  # largest C, in nats
    capacity_share: float = Field(default=24 / 360, ge=0, le=1)  # share of all steps over which C rises from 0
    width: int = Field(default=32, ge=1)  # channels of every convolution
    hidden: int = Field(default=256, ge=1)  # units of the dense layers
    spread: Literal["unit", "class", "prior"] = "unit"  # latents of a class: N(μ_c, I), with its own spread, or N(0, I)
    conditional: bool = False  # give encoder and decoder the label

    @model_validator(mode="after")
    def _a_class_shows_somewhere(self) -> Self:
        if self.spread == "prior" and not self.conditional:
            raise ValueError("spread: prior draws all classes alike, so it needs conditional: true")
        return self

    def capacity_at(self, step: int, steps: int) -> float:
        """C(t): from 0 to ``capacity``, linearly over the first ``capacity_share`` of all steps."""
        rise = self.capacity_share * steps
        return self.capacity if step >= rise else self.capacity * step / rise


def divergence_from_unit(mean: Tensor, log_variance: Tensor) -> Tensor:
    """(n,) KL(N(mean, variance) ‖ N(0, I)) = ½ Σ (μ² + σ² − ln σ² − 1), in nats."""
    return (mean.square() + log_variance.exp() - log_variance - 1).sum(1) / 2


def objective(logits: Tensor, x: Tensor, divergence: Tensor, gamma: float, capacity: float) -> Tensor:
    """Reconstruction, summed over pixels and averaged over the batch, + γ·|KL − C|.

    KL is averaged before it is compared with C, so this is not a mean over records. On a batch of one it is that
    record's own objective, with its own |KL − C|, which is what a private step clips.
    """
    return penalised(pixel_cost(logits, x), divergence, gamma, capacity)


def pixel_cost(logits: Tensor, x: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)


def penalised(cost: Tensor, divergence: Tensor, gamma: float, capacity: float) -> Tensor:
    return cost + gamma * (divergence.mean() - capacity).abs()


def train(
    net: Autoencoder,
    x: Tensor,
    told: Tensor,
    settings: VaeSettings,
    rng: torch.Generator,
    cost: RowCost = pixel_cost,
) -> Iterator[int]:
    """Yields the epoch after each checkpoint and at the end.

    ``x``: pixels between 0 and 1, or rows; ``told``: (n, t), the labels as given to encoder and decoder; ``cost``:
    −log p(x|z), averaged over a batch, from the decoder's outputs and ``x``.
    """
    adam = torch.optim.Adam(net.parameters(), lr=settings.lr, fused=True)
    steps = settings.steps(len(x))
    batches = shuffled_batches(len(x), settings.batch, steps, rng)
    draws = ((rows, torch.randn(len(rows), settings.latent, generator=rng)) for rows in batches)
    there = ahead(draws, lambda drawn: drawn, x.device)
    for step, (_, (rows, noise)) in enumerate(counted("training a generator", there, steps)):
        images, labels = x[rows], told[rows]
        capacity = settings.capacity_at(step, steps)
        loss = _loss(net, images, labels, noise, settings=settings, capacity=capacity, cost=cost)
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
        yield from settings.kept_after(step + 1, steps)


def train_privately(
    net: Autoencoder,
    x: Tensor,
    told: Tensor,
    settings: VaeSettings,
    private: PrivateSteps,
    cost: RowCost = pixel_cost,
) -> Iterator[int]:
    """The same by DP-SGD: each record's own objective, with its own noise from ``private.coins``.

    |KL − C(t)| is then per record, which is at least that of the mean KL: each posterior is drawn to the capacity, not
    only their average.
    """
    adam = torch.optim.Adam(net.parameters(), lr=settings.lr)
    gradient = PrivateGradients(net, private)
    batches = (private.rows(len(x)) for _ in range(private.steps))
    draws = ((rows, torch.randn(len(rows), settings.latent, generator=private.coins)) for rows in batches)
    there = ahead(draws, lambda drawn: drawn, x.device)
    for step, (_, (rows, noise)) in enumerate(counted("training a generator", there, private.steps)):
        loss = record_objective(settings, settings.capacity_at(step, private.steps), cost)
        fill_gradients(net, gradient(loss, x[rows], told[rows], noise))
        adam.step()
        yield from settings.kept_after(step + 1, private.steps)


def record_objective(settings: VaeSettings, capacity: float, cost: RowCost = pixel_cost) -> RecordLoss:
    """The objective of one record: record, label and noise come without a batch axis."""

    def loss(call: Callable[..., tuple[Tensor, Tensor, Tensor]], x: Tensor, told: Tensor, noise: Tensor) -> Tensor:
        return _loss(call, x[None], told[None], noise[None], settings=settings, capacity=capacity, cost=cost)

    return loss


def _loss(
    net: Callable[..., tuple[Tensor, Tensor, Tensor]],
    *given: Tensor,
    settings: VaeSettings,
    capacity: float,
    cost: RowCost,
) -> Tensor:
    outputs, mean, log_variance = net(*given)
    divergence = divergence_from_unit(mean, log_variance)
    return penalised(cost(outputs, given[0]), divergence, settings.gamma, capacity)
