"""ResNet-18 with the CIFAR stem: a 3×3 first convolution and no max pool, so that small images stay large.

He et al., Deep Residual Learning for Image Recognition. GroupNorm of two groups is the default because
one client's batch statistics say nothing about another's.
"""

from collections.abc import Callable
from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from understudy.base_settings import Settings
from understudy.data.problem import Problem
from understudy.errors import UserError
from understudy.models.classifier import Classifier, image_shape
from understudy.models.zoo import model

Norm = Callable[[int], nn.Module]
STAGES = ((1, 1), (2, 2), (4, 2), (8, 2))  # channels as a multiple of ``width``, stride of the first of the two blocks


class ResNetSettings(Settings):
    norm: Literal["group", "batch"] = "group"  # GroupNorm or BatchNorm
    groups: Literal[1, 2, 4, 8, 16, 32, 64] = 2  # of GroupNorm; must divide the width
    width: int = Field(default=64, ge=1)  # channels of the first stage; the other three have 2, 4 and 8 times as many


class Residual(nn.Module):
    """Two 3×3 convolutions and a shortcut."""

    def __init__(self, channels: int, out: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.path = nn.Sequential(
            *[nn.Conv2d(channels, out, 3, stride, 1, bias=False), norm(out), nn.ReLU()],
            *[nn.Conv2d(out, out, 3, 1, 1, bias=False), norm(out)],
        )
        same = stride == 1 and channels == out
        resize = [] if same else [nn.Conv2d(channels, out, 1, stride, bias=False), norm(out)]
        self.short_cut = nn.Sequential(*resize)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        summed: Tensor = self.relu(self.path(x) + self.short_cut(x))
        return summed


@model("resnet18", settings=ResNetSettings, takes=("image",))
def resnet18(problem: Problem, settings: ResNetSettings) -> nn.Module:
    """ResNet-18 for small images, GroupNorm of two groups or batch norm (FedDM; FedCOG on FLAIR)."""
    channels, _, _ = image_shape(problem, "resnet18", smallest=16, instead="'small-convnet'")
    norm: Norm = nn.BatchNorm2d if settings.norm == "batch" else _grouped(settings.groups)
    if settings.norm == "group" and settings.width % settings.groups:
        raise UserError(f"model.width: {settings.groups} groups do not divide {settings.width} channels; change one.")
    layers = [nn.Conv2d(channels, settings.width, 3, padding=1, bias=False), norm(settings.width), nn.ReLU()]
    channels = settings.width
    for factor, stride in STAGES:
        out = factor * settings.width
        layers += [Residual(channels, out, stride, norm), Residual(out, out, 1, norm)]
        channels = out
    body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return Classifier(body, nn.Linear(channels, problem.classes))


def _grouped(groups: int) -> Norm:
    return lambda channels: nn.GroupNorm(groups, channels)
