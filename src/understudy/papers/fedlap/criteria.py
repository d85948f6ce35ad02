"""Figures 6 and 7 of "FedLAP-DP: Federated Learning by Sharing Differentially Private Loss Approximations" (its
appendix D.1): what makes a good surrogate gradient, at a single client that holds all records.

In each step the client draws one batch, moves its images so that their gradient resembles the batch's, and the model
takes one step along the gradient of the images. ``Baseline`` follows the batch's own gradient (FedSGD with one
client); ``Vanilla`` matches angles; ``Regularization`` angles and lengths (the method's own); ``MSE`` the squared
distance alone; ``Calibration`` is Vanilla with each parameter tensor's gradient rescaled to the real length, a
diagnostic that needs the real lengths. All see the same batches and begin with the same noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

import torch
from torch import Tensor
from torch.nn import functional

from understudy.base_settings import Settings
from understudy.data.dataset import Dataset
from understudy.data.examples import Examples
from understudy.learning.dsa import WITHOUT_FLIP, apply, draw
from understudy.learning.evaluate import tally
from understudy.learning.loop import full_gradient
from understudy.models.network import Network
from understudy.randomness import generator
from understudy.synthesis.gradient_matching import Criterion, MovingImages, Target, calibrated, match_gradient

BASELINE, VANILLA, CALIBRATION, REGULARIZATION, MSE = "Baseline", "Vanilla", "Calibration", "Regularization", "MSE"
CRITERIA: Mapping[str, Criterion] = {
    VANILLA: Criterion(),
    CALIBRATION: Criterion(),
    REGULARIZATION: Criterion(mse=0.1),
    MSE: Criterion(cosine=False, mse=0.1),
}
WAYS = (BASELINE, *CRITERIA)


class CriteriaPlan(Settings):
    """As published where the paper says: 500 steps, image rate 100, model rate 0.1; the desk has fewer of "
    "everything."""

    ipc: int = 10
    image_steps: int = 5  # per batch
    batch: int = 256
    image_lr: float = 100.0
    image_momentum: float = 0.5
    lr: float = 0.1  # of the model
    steps: int = 500
    looks: int = 20  # how often it is scored


@dataclass(frozen=True)
class Fitted:
    """What came of following one kind of gradient; a number per look, the last after the last step."""

    way: str
    steps: tuple[int, ...]
    accuracy: tuple[float, ...]  # on the test set
    cosine: tuple[float, ...]  # of the angle between the gradient followed and the batch's
    length: tuple[float, ...]  # of the gradient followed, as a share of the batch's
    real_by_tensor: Mapping[str, tuple[float, ...]]  # lengths, for matrices and kernels
    made_by_tensor: Mapping[str, tuple[float, ...]]

    @property
    def off(self) -> float:
        """By how much its length differs from the real one, in percent, in the mean over looks."""
        return 100 * fmean(abs(one - 1) for one in self.length)


def fitted(net: Network, data: Dataset, way: str, plan: CriteriaPlan, seed: int) -> Fitted:
    rows, change = generator(seed, "criteria", "batches"), generator(seed, "criteria", "dsa")
    images = first_images(net, plan, seed)
    here, looks, seen = net.initial(), set(_looks(plan)), _Seen(net)
    for step in range(1, plan.steps + 1):
        drawn = torch.randint(len(data.train), (min(plan.batch, len(data.train)),), generator=rows)
        batch, same = data.train.take(drawn), draw(WITHOUT_FLIP, change)
        augmented = Examples(apply(same, net.problem.scale(batch.x)), batch.y)
        wanted = full_gradient(net, here, augmented, len(augmented))
        followed = wanted
        if way != BASELINE:
            net.load(here)
            match_gradient(net, images, Target(net, wanted, CRITERIA[way]), steps=plan.image_steps, draw=same)
            made = Examples(apply(same, images.x), images.y)
            followed = full_gradient(net, here, made, len(made))
        if way == CALIBRATION:
            followed = calibrated(net, followed, wanted)
        here[net.trainable] -= plan.lr * followed
        if step in looks:
            assert data.test is not None
            net.load(here)
            seen.add(step, tally(net.logits, data.test, net.problem).accuracy or 0.0, followed, wanted)
    return seen.fitted(way)


def first_images(net: Network, plan: CriteriaPlan, seed: int) -> MovingImages:
    """Noise, as many of each class."""
    y = torch.arange(net.problem.classes).repeat_interleave(plan.ipc)
    x = torch.randn(len(y), *net.problem.shape, generator=generator(seed, "criteria", "first images"))
    return MovingImages(x.to(net.device), y.to(net.device), lr=plan.image_lr, momentum=plan.image_momentum)


def _looks(plan: CriteriaPlan) -> list[int]:
    every = max(1, plan.steps // plan.looks)
    return [*range(every, plan.steps, every), plan.steps]


class _Seen:
    def __init__(self, net: Network):
        matrices = [(name, where) for name, (where, shape) in net.windows.items() if len(shape) > 1]
        self._where = dict(matrices)
        self._rows: list[tuple[int, float, float, float]] = []
        self._lengths: dict[str, list[tuple[float, float]]] = {name: [] for name in self._where}

    def add(self, step: int, accuracy: float, followed: Tensor, wanted: Tensor) -> None:
        cosine = float(functional.cosine_similarity(followed, wanted, dim=0))
        self._rows.append((step, accuracy, cosine, float(followed.norm() / wanted.norm())))
        for name, where in self._where.items():
            self._lengths[name].append((float(wanted[where].norm()), float(followed[where].norm())))

    def fitted(self, way: str) -> Fitted:
        steps, accuracy, cosine, length = zip(*self._rows, strict=True)
        real = {name: tuple(one for one, _ in some) for name, some in self._lengths.items()}
        made = {name: tuple(one for _, one in some) for name, some in self._lengths.items()}
        return Fitted(way, steps, accuracy, cosine, length, real, made)


def as_numbers(found: Mapping[str, Sequence[Fitted]]) -> dict[str, list[dict[str, object]]]:
    return {way: [asdict(one) for one in some] for way, some in found.items()}
