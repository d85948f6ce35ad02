"""The two plain CNNs of FedCOG: unpadded convolutions, max pools, no normalisation.

The papers put the ReLU before the pool. The largest of four is the same before and after a ReLU, so here the function
and its gradient are unchanged and the ReLU does a quarter of the work.
"""

from torch import nn

from understudy.base_settings import NoSettings
from understudy.data.problem import Problem
from understudy.models.classifier import Classifier, image_shape
from understudy.models.zoo import model


@model("simple-cnn", takes=("image",), fast="batch-last", together=16)
def simple_cnn(problem: Problem, _: NoSettings) -> nn.Module:
    """SimpleCNN: conv5×5 of 6 and 16 channels, then 120 and 84 (FedCOG on CIFAR-10 and Fashion-MNIST)."""
    channels, high, wide = image_shape(problem, "simple-cnn", smallest=16, instead="'small-convnet'")
    body = nn.Sequential(
        *[nn.Conv2d(channels, 6, 5), nn.MaxPool2d(2), nn.ReLU()],
        *[nn.Conv2d(6, 16, 5), nn.MaxPool2d(2), nn.ReLU()],
        nn.Flatten(),
        *[nn.Linear(16 * _left(high, 5, 2) * _left(wide, 5, 2), 120), nn.ReLU()],
        *[nn.Linear(120, 84), nn.ReLU()],
    )
    return Classifier(body, nn.Linear(84, problem.classes))


@model("cifar100-cnn", takes=("image",), fast="channels-last", together=8)
def cifar100_cnn(problem: Problem, _: NoSettings) -> nn.Module:
    """Conv3×3 of 16, 32 and 64 channels, then 128 (FedCOG on CIFAR-100)."""
    channels, high, wide = image_shape(problem, "cifar100-cnn", smallest=22, instead="'small-convnet'")
    body = nn.Sequential(
        *[nn.Conv2d(channels, 16, 3), nn.MaxPool2d(2), nn.ReLU()],
        *[nn.Conv2d(16, 32, 3), nn.MaxPool2d(2), nn.ReLU()],
        *[nn.Conv2d(32, 64, 3), nn.MaxPool2d(2), nn.ReLU()],
        nn.Flatten(),
        *[nn.Linear(64 * _left(high, 3, 3) * _left(wide, 3, 3), 128), nn.ReLU()],
    )
    return Classifier(body, nn.Linear(128, problem.classes))


def _left(side: int, kernel: int, times: int) -> int:
    """What is left of a side after this many unpadded convolutions, each followed by a pool of 2."""
    for _ in range(times):
        side = (side - kernel + 1) // 2
    return side
