"""FedSAM: "Generalized Federated Learning via Sharpness Aware Minimization", algorithm 1.

A client looks for a flat minimum: each step uses the gradient at the point nearby where the loss is worst,

    ε = ρ · g / ‖g‖,   g = ∇L(w),        w ← w − η ∇L(w + ε)

with the norm over all trained parameters together. Both gradients are of the same loss: the same batch, augmentation
and dropout mask, including the losses of joined terms. What acts in closed form (weight decay, momentum, clipping,
control variates) belongs to the base optimiser and acts at w. Running statistics follow the pass at w, once per step.
The price is a second pass; only the model is sent.

FedCOG compares with ρ = 0.5 (preset ``fedcog``).
"""

from collections.abc import Callable, Sequence

from pydantic import Field

from understudy.federation.registry import method
from understudy.learning.loop import Batch, Pull, Slope, plain
from understudy.methods.shared.averaging import Averaging, AveragingSettings
from understudy.models.network import Network
from understudy.randomness import global_streams_kept

TINY = 1e-12  # without a slope there is nowhere to climb


class FedSamSettings(AveragingSettings):
    rho: float = Field(default=0.05, ge=0)  # ρ, radius of the ascent


def sharp(rho: float) -> Slope:
    """The gradient at the worst point within ``rho``, to first order."""

    def slope(net: Network, forward: Callable[[], Batch], pulls: Sequence[Pull]) -> None:
        # The second pass repeats the draws made in here, so dropout leaves out the same units.
        with global_streams_kept():
            plain(net, forward, pulls)
        after_first = net.vector.clone()
        net.vector[net.trainable].add_(net.grad * (rho / (net.grad.norm() + TINY)))
        plain(net, forward, pulls)
        net.vector.copy_(after_first)

    return slope


class FedSam(Averaging):
    def effort(self, records: int, classes: int) -> int:
        return 2 * super().effort(records, classes)


@method("fedsam", settings=FedSamSettings, presets={"fedcog": {"rho": 0.5}})
def fedsam(settings: FedSamSettings) -> Averaging:
    return FedSam(settings, slope=lambda client, brief, net: sharp(settings.rho))
