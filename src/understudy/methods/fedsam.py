"""FedSAM: "Generalized Federated Learning via Sharpness Aware Minimization", algorithm 1.

A client looks for a flat valley: each step takes the gradient where the loss is worst nearby,

    ε = ρ · g / ‖g‖,   g = ∇L(w),        w ← w − η ∇L(w + ε)

with the norm over all trained parameters together, and both gradients on the same loss: the same batch, the same
augmentation, the same dropout mask, the losses of joined terms included. What acts in closed form (weight decay,
momentum, clipping, control variates) belongs to the base optimiser and acts at w. Running statistics follow the pass at
w, once a step. The price is a second pass; nothing but the model travels.

FedCOG compares with ρ = 0.5 (preset ``fedcog``).
"""

from collections.abc import Callable, Sequence

from pydantic import Field

from understudy.federation.registry import method
from understudy.learning.loop import Batch, Pull, Slope, plain
from understudy.methods.shared.averaging import Averaging, AveragingSettings
from understudy.models.network import Network
from understudy.randomness import global_streams_kept

TINY = 1e-12  # where there is no slope there is nowhere to climb


class FedSamSettings(AveragingSettings):
    rho: float = Field(default=0.05, ge=0)  # ρ, radius of the ascent


def sharp(rho: float) -> Slope:
    """The gradient at the worst point within ``rho``, to a first order."""

    def slope(net: Network, forward: Callable[[], Batch], pulls: Sequence[Pull]) -> None:
        # What is drawn in here is drawn again in the second pass: dropout leaves out the same places.
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
