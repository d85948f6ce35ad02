"""Images on which an ensemble is confident and a student disagrees, made without a record.

From "DENSE: Data-Free One-Shot Federated Learning", the generation step. A fresh image network and its noise z are
learnt together for a few steps of Adam on

    CE(ens(x), y) + a · Σ_BN (‖μ − μ̂‖ + ‖v − v̂‖) − b · mean( 1[argmax differs] · KL(ens(x) ‖ student(x)) )

where ens is the mean of the members' logits, y are labels drawn evenly, and the sum runs over all BatchNorm layers of
all members: μ, v are a layer's running statistics, μ̂, v̂ those of the batch it sees. Images are cropped and flipped
before scoring, and scaled as the problem requires (the released code scores raw pixels).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from understudy.learning.ahead import ahead
from understudy.learning.augmentation import Augmentation, changed, draw_changes
from understudy.models.network import Network
from understudy.synthesis.divergence import kullback_leibler
from understudy.synthesis.image_network import NOISE, new_image_network

CHANGES: tuple[Augmentation, ...] = ("crop", "flip")


@dataclass(frozen=True)
class Generation:
    """What the images minimise, and how they are learnt."""

    steps: int  # of Adam
    lr: float
    statistics_weight: float  # a
    adversarial_weight: float  # b


class Ensemble:
    """Models of one architecture; ``net`` provides the layers and is never written to."""

    def __init__(self, net: Network, models: Sequence[Tensor]):
        self.net, self._models = net, [model.to(net.device) for model in models]

    def logits(self, x: Tensor) -> Tensor:
        """(n, classes): the mean over members."""
        found = [self.net.at(model, x)[1] for model in self._models]
        return torch.stack(found).mean(0)[:, : self.net.problem.classes]

    def logits_and_surprise(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Also how far the statistics seen by BatchNorm layers are from their running ones; 0 without such layers."""
        surprises: list[Tensor] = []

        def notice(layer: nn.Module, seen: tuple[Tensor]) -> None:
            surprises.append(surprise(layer, seen[0]))

        layers = [m for m in self.net.module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        hooks = [layer.register_forward_pre_hook(notice) for layer in layers]
        try:
            logits = self.logits(x)
        finally:
            for hook in hooks:
                hook.remove()
        return logits, torch.stack(surprises).sum() if surprises else logits.new_zeros(())

    def score(self, x: Tensor, batch: int = 256) -> Tensor:
        """Logits of many records, without gradients."""
        with self.net.scoring():
            return torch.cat([self.logits(some) for some in torch.split(x, batch)])


def surprise(layer: nn.Module, seen: Tensor) -> Tensor:
    """‖μ − μ̂‖₂ + ‖v − v̂‖₂ of a BatchNorm layer that sees ``seen``, (n, channels, …)."""
    assert isinstance(layer, nn.modules.batchnorm._BatchNorm)
    assert layer.running_mean is not None
    assert layer.running_var is not None
    across = [0, *range(2, seen.ndim)]
    mean, variance = seen.mean(across), seen.var(across, unbiased=False)
    found: Tensor = (layer.running_mean - mean).norm() + (layer.running_var - variance).norm()
    return found


def wish(ensemble: Ensemble, student: Network, x: Tensor, y: Tensor, how: Generation) -> Tensor:
    """The loss that the images minimise."""
    sure, surprised = ensemble.logits_and_surprise(x)
    said = student(x)[1][:, : student.problem.classes]
    differs = (sure.argmax(1) != said.argmax(1)).to(said.dtype)
    apart = (differs * kullback_leibler(sure.log_softmax(1), said.log_softmax(1))).mean()
    return F.cross_entropy(sure, y) + how.statistics_weight * surprised - how.adversarial_weight * apart


def imagine(ensemble: Ensemble, student: Network, images: int, rng: torch.Generator, how: Generation) -> Tensor:
    """(images, channels, height, width) uint8: those of the best step, before cropping."""
    problem, device = student.problem, student.device
    draw = new_image_network(problem, rng).to(device)
    z = torch.randn(images, NOISE, generator=rng).to(device).requires_grad_()
    y = torch.randint(problem.classes, (images,), generator=rng).to(device)
    adam = torch.optim.Adam([z, *draw.parameters()], lr=how.lr, betas=(0.5, 0.999))
    best, least = draw.pixels(z).detach(), torch.tensor(torch.inf, device=device)
    draws = (draw_changes(images, CHANGES, rng) for _ in range(how.steps))
    with ensemble.net.frozen(), student.frozen():
        for _, changes in ahead(draws, lambda drawn: drawn, device):
            pixels = draw.pixels(z)
            x = (changed(pixels, CHANGES, changes) - draw.shift) / draw.unit
            loss = wish(ensemble, student, x, y, how)
            best = torch.where(loss.detach() < least, pixels.detach(), best)
            least = torch.fmin(loss.detach(), least)
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
    return best.mul(255).round().to(torch.uint8).cpu()
