"""Published noise: the noise that "FedDM: Iterative Distribution Matching for Communication-Efficient Federated
Learning" gives its baselines (figures 4 and 10), as its algorithm 2 gives it to images. It protects nothing.

An add-on to methods in which clients train and the server averages. In each local step, the gradient g of a batch B,
which is already a mean over its records, is clipped and noised:

    g ← g · min(1, C / ‖g‖) + N(0, σ² C² I) / |B|

What does not depend on records (a proximal term, a control variate) is added afterwards. This is not DP-SGD, although
the paper calls it so: a single record can turn the clipped mean round, a move of up to 2C whatever the size of the
batch, so that the noise is too small by a factor of up to 2|B|. Nothing is charged and the ledger reports no ε. The
noise comes from the run's seed, so that runs can be repeated. For noise that keeps a promise, see dp-fedavg; for the
same noise on FedDM's images, its ``dp: paper``.
"""

import copy
from collections.abc import Iterator, Sequence

import torch
from pydantic import Field
from torch import Tensor

from understudy.base_settings import Settings
from understudy.errors import UserError
from understudy.federation.client import Client
from understudy.federation.message import Message
from understudy.federation.method import Method
from understudy.federation.registry import add_on
from understudy.learning.ahead import ahead
from understudy.learning.loop import Pull, Slope, Step
from understudy.methods.shared.averaging import Averaging
from understudy.models.network import Network


class PublishedNoiseSettings(Settings):
    noise: float = Field(default=1.0, ge=0)  # σ, in units of the clip; the paper tries 1, 3 and 5
    clip: float = Field(default=5.0, gt=0)  # C, largest norm of the gradient of a batch


def noised(inner: Slope, settings: PublishedNoiseSettings, noises: Iterator[Tensor]) -> Slope:
    """The direction that ``inner`` leaves, clipped as a whole, with noise: one of ``noises`` for each step."""

    def slope(net: Network, forward: Step, pulls: Sequence[Pull]) -> None:
        inner(net, forward, pulls)
        net.grad.mul_(torch.clamp(settings.clip / (net.grad.norm() + 1e-12), max=1))
        net.grad.add_(next(noises), alpha=settings.noise * settings.clip / len(forward.y))

    return slope


def standard_noises(like: Tensor, steps: int, rng: torch.Generator) -> Iterator[Tensor]:
    """N(0, I) for each step, on the device of ``like``: those of the planned ``steps`` are sent ahead."""
    planned = (torch.randn(like.shape, generator=rng) for _ in range(steps))
    yield from (there for _, (there,) in ahead(planned, lambda one: [one], like.device))
    while True:
        yield torch.randn(like.shape, generator=rng).to(like.device)


@add_on("published-noise", settings=PublishedNoiseSettings)
def published_noise(settings: PublishedNoiseSettings, inner: Method) -> Method:
    if not isinstance(inner, Averaging):
        raise UserError(
            f"published-noise joins methods in which clients train and the server averages, but {type(inner).__name__} "
            "has no local training to join; for feddm write method.dp=paper."
        )
    if inner.private:
        raise UserError("published-noise: this method has noise that keeps a promise; leave the add-on out.")
    before = inner.slope

    def slope_for(client: Client, brief: Message, net: Network) -> Slope:
        steps = inner.settings.local.step_count(len(client.own))
        noises = standard_noises(net.grad, steps, client.rng("published noise"))
        return noised(before(client, brief, net), settings, noises)

    joined = copy.copy(inner)
    joined.slope = slope_for
    return joined
